import type { ReactNode } from "react";
import { ApiError } from "../api";

export function Loading({ what }: { what: string }) {
  return (
    <p className="state" role="status">
      Loading {what}…
    </p>
  );
}

/** What went wrong and what to do about it. */
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  const hint = error instanceof ApiError ? error.hint : null;
  return (
    <div className="state" role="alert">
      <p>
        <strong>{error.message}</strong>
      </p>
      {hint && <p className="quiet">{hint}</p>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Nothing is there, and the one command that changes it. */
export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <div className="state">
      <p>{children}</p>
      {command && (
        <p>
          <code>{command}</code>
        </p>
      )}
    </div>
  );
}
