/** What happens, as it happens: one stream of events for the page, and what it makes stale is asked for again. */

import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { paths } from "./api";
import { delta } from "./queries";

export type Connection = "connecting" | "live" | "lost";

let connection: Connection = "connecting";
const listeners = new Set<() => void>();

function become(next: Connection): void {
  if (next === connection) return;
  connection = next;
  for (const listener of listeners) listener();
}

export function useConnection(): Connection {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => connection,
  );
}

/** Events that come close together are one refresh. */
const GATHER_MS = 100;

/** Between two tries to get a stream that was refused: a browser only comes back by itself when one breaks off. */
const RETRY_MS = 3_000;

interface Told {
  conversation_id?: string | null;
  friendly_id?: string | null;
}

export function useLive(isAllowed: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (!isAllowed) return;
    let source: EventSource | null = null;
    let retry: number | undefined;
    const refresh = gathered(client);
    const open = () => {
      close();
      source = new EventSource(paths.events);
      source.onopen = () => {
        // What happened while nobody listened is not told again.
        if (connection === "lost") refresh(null);
        become("live");
      };
      source.onerror = () => {
        become("lost");
        if (source?.readyState === EventSource.CLOSED) retry = window.setTimeout(open, RETRY_MS);
      };
      for (const kind of ["exchange.begin", "exchange.end", "links.changed"]) {
        source.addEventListener(kind, (event: MessageEvent<string>) => refresh(JSON.parse(event.data) as Told));
      }
      source.addEventListener("health", () => void client.invalidateQueries({ queryKey: ["health"] }));
      source.addEventListener("import.progress", () => {
        for (const queryKey of [["health"], ["imports"]]) void client.invalidateQueries({ queryKey });
      });
      source.addEventListener("exchange.delta", (event: MessageEvent<string>) => {
        const { id, response_bytes } = JSON.parse(event.data) as { id: string; response_bytes: number };
        client.setQueryData(delta(id).queryKey, response_bytes);
      });
    };
    const close = () => {
      window.clearTimeout(retry);
      source?.close();
      source = null;
    };
    // A hidden page holds no connection: a browser has few for one host, and a server few readers.
    const seen = () => {
      if (document.hidden) {
        close();
        become("lost");
      } else if (!source) open();
    };
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      close();
    };
  }, [client, isAllowed]);
}

/** What a new exchange does not change, or what takes too long to be asked for at every one. */
const LASTING = new Set(["exchange", "bytes", "delta", "diff", "answers", "insight"]);

/** Asks again for lists, and for those conversations that went on. `null` is everything. */
function gathered(client: QueryClient): (told: Told | null) => void {
  let waiting: Set<string> | null = null;
  let isAll = false;
  return (told) => {
    if (waiting === null) {
      waiting = new Set();
      window.setTimeout(() => {
        const ids = waiting ?? new Set();
        const everything = isAll;
        [waiting, isAll] = [null, false];
        void client.invalidateQueries({
          predicate: ({ queryKey: [kind, id] }) =>
            everything || (kind === "conversation" ? ids.has(String(id)) : !LASTING.has(String(kind))),
        });
      }, GATHER_MS);
    }
    if (told === null) isAll = true;
    for (const id of [told?.conversation_id, told?.friendly_id]) if (id) waiting.add(id);
  };
}
