/** Where the reader is: the path and what is asked for in it, so that every view can be linked and the way back works. */

import { useSyncExternalStore, type MouseEvent } from "react";

/** The views, by their addresses. */
export const VIEWS = [
  ["/", "Home"],
  ["/conversations", "Conversations"],
  ["/agents", "Agents"],
  ["/compare", "Compare"],
  ["/insight", "Insight"],
  ["/search", "Search"],
  ["/health", "Health"],
] as const;

export interface Place {
  path: string;
  query: URLSearchParams;
  hash: string;
}

let current = read();
const listeners = new Set<() => void>();

function read(): Place {
  const { pathname, search, hash } = window.location;
  return { path: pathname, query: new URLSearchParams(search), hash: decoded(hash.slice(1)) };
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function changed(): void {
  current = read();
  for (const listener of listeners) listener();
}

window.addEventListener("popstate", changed);
window.addEventListener("hashchange", changed);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, () => current);
}

export function go(to: string, how: "push" | "replace" = "push"): void {
  window.history[how === "push" ? "pushState" : "replaceState"](null, "", to);
  changed();
}

/** The same place with other filters; what is null is taken out. */
export function withQuery(place: Place, changes: Record<string, string | null>, hash: string | null = null): string {
  const query = new URLSearchParams(place.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return `${place.path}${text === "" ? "" : `?${text}`}${hash === null ? "" : `#${encodeURIComponent(hash)}`}`;
}

/** A link that stays inside the page unless the reader wants another tab. */
export function follow(event: MouseEvent<HTMLAnchorElement>): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const { pathname, search, hash } = event.currentTarget;
  go(pathname + search + hash);
}

export const to = {
  compare: (a: string, b: string) => `/compare?${new URLSearchParams({ a, b }).toString()}`,
  answers: (exchange: string) => `/compare?${new URLSearchParams({ to: exchange }).toString()}`,
  conversation: (id: string, asked: Record<string, string> = {}, hash: string | null = null) => {
    const query = new URLSearchParams(asked).toString();
    const path = `/conversations/${encodeURIComponent(id)}${query === "" ? "" : `?${query}`}`;
    return hash === null ? path : `${path}#${encodeURIComponent(hash)}`;
  },
};
