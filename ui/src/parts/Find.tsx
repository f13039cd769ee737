import { useEffect, useMemo, useState } from "react";
import { counted } from "../pure/format";
import { partsOf, type Step } from "../pure/session";

/** Finds words in the messages of the path, also in those that are not on the screen. */
export function Find({ path, onGo, onClose }: { path: Step[]; onGo: (at: number) => void; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(-1);
  const wanted = typed.trim().toLowerCase();
  useMarked(wanted);
  const found = useMemo(() => {
    if (wanted === "") return [];
    const has = (step: Step) => partsOf(step.message).some((part) => part.is === "text" && part.text.toLowerCase().includes(wanted));
    return path.flatMap((step, index) => (has(step) ? [index] : []));
  }, [path, wanted]);
  const step = (by: number) => {
    if (found.length === 0) return;
    const next = at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length;
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
      <span role="status">{wanted === "" ? "" : found.length === 0 ? "not found" : at < 0 ? `in ${counted(found.length, "message", "messages")}` : `${at + 1} of ${found.length}`}</span>
      <button type="button" aria-label="Previous" disabled={found.length === 0} onClick={() => step(-1)}>
        ‹
      </button>
      <button type="submit" aria-label="Next" disabled={found.length === 0}>
        ›
      </button>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </form>
  );
}

/** Places that are marked at a time: more are not on a screen. */
const MARKED_MAX = 1_000;

/** Marks words in the messages that are in the page, also in those that come with scrolling, without changing an element of theirs. */
function useMarked(wanted: string): void {
  useEffect(() => {
    const messages = document.querySelector(".messages");
    if (!messages || wanted === "" || !("highlights" in CSS)) return;
    const mark = () => CSS.highlights.set("found", new Highlight(...placesOf(messages, wanted)));
    mark();
    const changed = new MutationObserver(mark);
    changed.observe(messages, { childList: true, subtree: true });
    return () => {
      changed.disconnect();
      CSS.highlights.delete("found");
    };
  }, [wanted]);
}

function placesOf(within: Element, wanted: string): Range[] {
  const places: Range[] = [];
  const texts = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node && places.length < MARKED_MAX; node = texts.nextNode()) {
    const [around, text] = [node.parentElement, (node.nodeValue ?? "").toLowerCase()];
    if (!around?.closest(".message") || around.closest("header, button")) continue;
    // Some letters are longer in lower case, and then places in one text are none in the other.
    if (text.length !== node.nodeValue?.length) continue;
    for (let at = text.indexOf(wanted); at >= 0 && places.length < MARKED_MAX; at = text.indexOf(wanted, at + wanted.length)) {
      const place = new Range();
      place.setStart(node, at);
      place.setEnd(node, at + wanted.length);
      places.push(place);
    }
  }
  return places;
}
