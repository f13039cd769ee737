import type { Names } from "../pure/session";
import { Copy } from "./Copy";

/** `#5 · a3f2b1`: copies the full reference. Without a hash it is the index, and without either there is none. */
export function Badge({ names }: { names: Names }) {
  if (names.index === null && names.hash === null) return null;
  const shown = names.hash === null ? `#${names.index}` : names.index === null ? names.hash : `#${names.index} · ${names.hash}`;
  return (
    <Copy className="badge" label="Copy reference" text={names.reference ?? names.hash ?? `#${names.index}`}>
      {shown}
    </Copy>
  );
}
