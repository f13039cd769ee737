/** What happens, as it happens: one stream of events for the page, and what it makes stale is asked for again. */

import { useQueryClient, type Query, type QueryClient, type QueryKey } from "@tanstack/react-query";
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
    const refresh = refreshing(client);
    const open = () => {
      close();
      source = new EventSource(paths.events);
      source.onopen = () => {
        // What happened while nobody listened is not told again, nor what happened between a first answer and the first word.
        if (connection !== "live") refresh(null);
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

/** Sums over everything: nobody waits for them, and what somebody waits for does not wait for them. */
const SUMS = new Set(["stats", "health"]);

/** Events that are told together are one refresh. */
const GATHER_MS = 16;
const GATHER_SUMS_MS = 500;

/** Asks again for lists, and for those conversations that went on: at once, and for sums a little later. `null` is everything. */
function refreshing(client: QueryClient): (told: Told | null) => void {
  const renew = renewing(client);
  const isSum = ([kind]: QueryKey) => SUMS.has(String(kind));
  let ids = new Set<unknown>();
  let isAll = false;
  const lists = gathered(GATHER_MS, () => {
    const [named, everything] = [ids, isAll];
    [ids, isAll] = [new Set(), false];
    renew((key) => !isSum(key) && (everything || (key[0] === "conversation" ? named.has(key[1]) : !LASTING.has(String(key[0])))));
  });
  const sums = gathered(GATHER_SUMS_MS, () => renew(isSum));
  return (told) => {
    if (told === null) isAll = true;
    ids.add(told?.conversation_id).add(told?.friendly_id);
    lists();
    sums();
  };
}

/** Does something once for all calls within some time. */
function gathered(ms: number, run: () => void): () => void {
  let timer: number | undefined;
  return () => {
    timer ??= window.setTimeout(() => {
      timer = undefined;
      run();
    }, ms);
  };
}

/**
 * Asks again for what is shown, each question by itself, so that a slow one delays no other. What is being asked already is asked
 * once more behind it, however often it became stale meanwhile: asking anew each time would never come to an answer while much happens.
 */
function renewing(client: QueryClient): (isStale: (key: QueryKey) => boolean) => void {
  const asking = new Map<string, { isStale: boolean }>();
  const ask = async (query: Query): Promise<void> => {
    const known = asking.get(query.queryHash);
    if (known) {
      known.isStale = true;
      return;
    }
    const state = { isStale: query.state.fetchStatus === "fetching" };
    asking.set(query.queryHash, state);
    await client.refetchQueries({ queryKey: query.queryKey, exact: true, type: "active" }, { cancelRefetch: false });
    asking.delete(query.queryHash);
    if (state.isStale) await ask(query);
  };
  return (isStale) => {
    const predicate = ({ queryKey }: Query) => isStale(queryKey);
    // What nobody sees is asked for when somebody does.
    void client.invalidateQueries({ predicate, refetchType: "none" });
    for (const query of client.getQueryCache().findAll({ predicate, type: "active" })) void ask(query);
  };
}
