/** What views ask for. Keys begin with what live events make stale: see live.ts. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import {
  all,
  get,
  getBytes,
  paths,
  type Agent,
  type Conversation,
  type ConversationTree,
  type Exchange,
  type Explanation,
  type Health,
  type Hit,
  type NamedMessage,
  type Stats,
  type Suggestion,
  type TreeMessage,
} from "./api";

const PAGE = 500;
/** Exchanges that strands are drawn for. */
const EXCHANGE_PAGES_MAX = 25;
const NAME_PAGES_MAX = 200;

export const conversations = (asked: { since: string | null; until: string | null }) =>
  infiniteQueryOptions({
    queryKey: ["conversations", asked],
    queryFn: ({ pageParam, signal }) =>
      get<{ conversations: Conversation[]; next_cursor: string | null }>(
        paths.conversations,
        { ...asked, limit: 100, cursor: pageParam },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

export const conversation = (id: string) =>
  queryOptions({
    queryKey: ["conversation", id, "tree"],
    queryFn: ({ signal }) => get<ConversationTree>(paths.conversation(id), { limit: 200 }, signal),
  });

export const messages = (id: string) =>
  infiniteQueryOptions({
    queryKey: ["conversation", id, "messages"],
    queryFn: ({ pageParam, signal }) =>
      get<{ messages: TreeMessage[]; total: number; next: string | null }>(
        paths.messages(id),
        { limit: PAGE, cursor: pageParam },
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });

export const names = (id: string) =>
  queryOptions({
    queryKey: ["conversation", id, "names"],
    queryFn: ({ signal }) =>
      all(async (cursor) => {
        const page = await get<{ messages: NamedMessage[]; next_cursor: string | null }>(
          paths.named(id),
          { limit: PAGE, cursor },
          signal,
        );
        return { items: page.messages, next: page.next_cursor };
      }, NAME_PAGES_MAX),
  });

export const exchanges = (id: string) =>
  queryOptions({
    queryKey: ["conversation", id, "exchanges"],
    queryFn: ({ signal }) =>
      all(async (cursor) => {
        const page = await get<{ exchanges: Exchange[]; next_cursor: string | null }>(
          paths.exchanges,
          { ref: id, limit: 200, cursor },
          signal,
        );
        return { items: page.exchanges, next: page.next_cursor };
      }, EXCHANGE_PAGES_MAX),
  });

export const exchange = (id: string) =>
  queryOptions({
    queryKey: ["exchange", id],
    queryFn: ({ signal }) => get<Explanation>(paths.exchange(id), {}, signal),
  });

/** Of a body; the rest is for whoever downloads it. */
export const BYTES_SHOWN = 400_000;

export const bytes = (id: string, half: "request" | "response") =>
  queryOptions({
    queryKey: ["bytes", id, half],
    queryFn: async ({ signal }) => {
      const whole = await getBytes(paths.half(id, half), signal);
      const shown = new TextDecoder().decode(whole.slice(0, BYTES_SHOWN));
      return { text: shown, length: whole.byteLength };
    },
    gcTime: 60_000,
  });

export const agents = queryOptions({
  queryKey: ["agents"],
  queryFn: ({ signal }) => get<{ agents: Agent[] }>(paths.agents, { limit: 50 }, signal),
});

export const search = (asked: { query: string; said_by: string | null }) =>
  infiniteQueryOptions({
    queryKey: ["search", asked],
    queryFn: ({ pageParam, signal }) =>
      get<{ hits: Hit[]; next_cursor: string | null }>(paths.search, { ...asked, limit: 25, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
  });

export const suggestions = (typed: string) =>
  queryOptions({
    queryKey: ["suggestions", typed],
    queryFn: ({ signal }) => get<{ suggestions: Suggestion[] }>(paths.references, { q: typed, limit: 8 }, signal),
  });

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const stats = (since: string) =>
  queryOptions({
    queryKey: ["stats", since],
    queryFn: ({ signal }) => get<Stats>(paths.stats, { since, tz: zone }, signal),
  });

export const health = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => get<Health>(paths.health, {}, signal),
});
