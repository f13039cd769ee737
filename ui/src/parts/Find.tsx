import { useMemo, useState } from "react";
import { partsOf, type Step } from "../pure/session";

/** Finds words in the messages of the path, also in those that are not on the screen. */
export function Find({ path, onGo, onClose }: { path: Step[]; onGo: (at: number) => void; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(-1);
  const found = useMemo(() => {
    const wanted = typed.trim().toLowerCase();
    if (wanted === "") return [];
    const has = (step: Step) => partsOf(step.message).some((part) => part.is === "text" && part.text.toLowerCase().includes(wanted));
    return path.flatMap((step, index) => (has(step) ? [index] : []));
  }, [path, typed]);
  const step = (by: number) => {
    if (found.length === 0) return;
    const next = (at + by + found.length) % found.length;
    setAt(next);
    onGo(found[next] ?? 0);
  };
  return (
    <form
      className="find"
      role="search"
      aria-label="Find in the conversation"
      onSubmit={(event) => {
        event.preventDefault();
        step(1);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        if (event.key === "Enter" && event.shiftKey) {
          event.preventDefault();
          step(-1);
        }
      }}
    >
      <input
        autoFocus
        type="search"
        aria-label="Find in the conversation"
        placeholder="Find in the conversation"
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(-1);
        }}
      />
      <span role="status">{typed.trim() === "" ? "" : found.length === 0 ? "not found" : `${Math.max(at + 1, 0)} of ${found.length}`}</span>
      <button type="submit">Next</button>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </form>
  );
}
