/** Keys that do something. A view adds its own while it is shown; the newest that knows a key has it, and the shell has the rest. */

import { useEffect, useRef } from "react";

export interface Key {
  /** As `event.key` has it; `Alt+` and `Mod+` (Ctrl or ⌘) in front. */
  key: string;
  does: string;
  run: () => void;
}

const shown: { current: Key[] }[] = [];

function nameOf(event: KeyboardEvent): string {
  const mod = event.ctrlKey || event.metaKey ? "Mod+" : "";
  return `${mod}${event.altKey ? "Alt+" : ""}${event.key}`;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName));
}

window.addEventListener("keydown", (event) => {
  const name = nameOf(event);
  if (event.defaultPrevented || event.isComposing) return;
  if (isTyping(event.target) && !name.startsWith("Mod+")) return;
  // What is open on top has the keys, and closes by itself on Escape.
  if (document.querySelector("dialog[open], :popover-open") !== null) return;
  for (const keys of [...shown].reverse()) {
    const found = keys.current.find((one) => one.key === name);
    if (found) {
      event.preventDefault();
      found.run();
      return;
    }
  }
});

export function useKeys(keys: Key[], of: "view" | "shell" = "view"): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    // A view that is there from the beginning comes before the shell around it.
    if (of === "shell") shown.unshift(latest);
    else shown.push(latest);
    return () => void shown.splice(shown.indexOf(latest), 1);
  }, [of]);
}

/** For the help: what the keys do here, views before the shell. */
export function keysHere(): Key[] {
  const all = [...shown].reverse().flatMap((keys) => keys.current);
  return all.filter(({ key }, at) => all.findIndex((one) => one.key === key) === at);
}
