/** What views ask for. Keys begin with what live events make stale: see live.ts. */

import { infiniteQueryOptions, queryOptions, skipToken } from "@tanstack/react-query";
import {
  all,
  get,
  getBytes,
  paths,
  type Agent,
  type CacheReport,
  type CacheStats,
  type ContextChange,
  type Conversation,
  type ConversationTree,
  type Diff,
  type Exchange,
  type Explanation,
  type HealthReport,
  type Hits,
  type LogFile,
  type Merge,
  type NamedMessage,
  type NearDuplicates,
  type Noted,
  type Page,
  type Stats,
  type StoredAnswer,
  type Suggestion,
  type Templates,
  type Timeline,
  type TreeMessage,
  type Waste,
} from "./api";
import { bytesOf, pictures } from "./pure/pictures";

const PAGE = 500;
/** Exchanges that strands are drawn for. */
const EXCHANGE_PAGES_MAX = 100;
const NAME_PAGES_MAX = 200;

export interface ListedBy {
  since: string | null;
  until: string | null;
  model?: string;
  agent?: string;
  project?: string;
  cost?: number;
}

export const conversations = (asked: ListedBy) =>
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

/** What one branch quotes of another. */
export const merges = (id: string) =>
  queryOptions({
    queryKey: ["conversation", id, "merges"],
    queryFn: ({ signal }) => get<{ merges: Merge[] }>(paths.merges, { ref: id }, signal),
  });

/** Changes of the system prompt and the tools; of one exchange, with their texts. */
export const changes = (id: string, exchange: string | null = null) =>
  queryOptions({
    queryKey: ["conversation", id, "changes", exchange],
    queryFn: ({ signal }) => get<{ changes: ContextChange[] }>(paths.changes(id), { exchange, limit: 500 }, signal),
  });

export const diff = (a: string, b: string) =>
  queryOptions({ queryKey: ["diff", a, b], queryFn: ({ signal }) => get<Diff>(paths.diff, { a, b }, signal) });

export const answers = (ref: string) =>
  queryOptions({
    queryKey: ["answers", ref],
    queryFn: ({ signal }) => get<{ answers: StoredAnswer[]; answers_left_out: number }>(paths.answers, { ref }, signal),
  });

export const cacheStats = (since: string) =>
  queryOptions({ queryKey: ["insight", "cache", since], queryFn: ({ signal }) => get<CacheStats>(paths.cacheStats, { since }, signal) });

export const cacheReport = (ref: string) =>
  queryOptions({ queryKey: ["exchange", ref, "cache"], queryFn: ({ signal }) => get<CacheReport>(paths.cache, { ref }, signal) });

/** A list behind cursors, page by page as somebody wants more, as one. */
const listed = <T, L>(queryKey: string[], path: string, limit: number, joined: (pages: T[]) => L) =>
  infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam, signal }) => get<Page<T>>(path, { limit, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    select: ({ pages }) => joined(pages),
  });

export const waste = listed(["insight", "waste"], paths.waste, 10, (pages: Waste[]) => ({
  results: pages.flatMap((page) => page.results),
  files: pages.flatMap((page) => page.files),
  largest: pages.flatMap((page) => page.largest),
  agents: pages.flatMap((page) => page.agents),
}));

export const nearDuplicates = listed(["insight", "suggestions"], paths.suggestions, 10, (pages: NearDuplicates[]) => pages.flatMap((page) => page.pairs));

export const templates = listed(["insight", "templates"], paths.templates, 10, (pages: Templates[]) => pages.flatMap((page) => page.templates));

export const logFiles = listed(["imports"], paths.imports, 50, (pages: { files: LogFile[] }[]) => pages.flatMap((page) => page.files));

export const noted = listed(["imports", "audit"], paths.audit, 20, (pages: { changes: Noted[] }[]) => pages.flatMap((page) => page.changes));

export const timeline = (asked: { ref?: string; project?: string; client?: string }) =>
  queryOptions({ queryKey: ["insight", "timeline", asked], queryFn: ({ signal }) => get<Timeline>(paths.timeline, asked, signal) });

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

/** A request with more is not read for the pictures in it. */
const REQUEST_BYTES_MAX = 64 * 1024 * 1024;

/** The pictures that were sent with an exchange, each with the beginning of its hash. */
export const sentPictures = (id: string) =>
  queryOptions({
    queryKey: ["bytes", id, "pictures"],
    queryFn: async ({ signal }) => {
      const request = new TextDecoder().decode(await getBytes(paths.half(id, "request"), signal, REQUEST_BYTES_MAX));
      return await Promise.all(pictures(request).map(async (found) => ({ ...found, hash: await shortHash(found.base64) })));
    },
    gcTime: 60_000,
  });

/** Bytes of an answer that is coming in: told by events, never asked for. */
export const delta = (id: string) => queryOptions<number>({ queryKey: ["delta", id], queryFn: skipToken });

export const agents = listed(["agents"], paths.agents, 50, (pages: { agents: Agent[] }[]) => pages.flatMap((page) => page.agents));

export const search = (asked: { query: string; said_by: string | null }) =>
  infiniteQueryOptions({
    queryKey: ["search", asked],
    queryFn: ({ pageParam, signal }) =>
      get<Hits>(paths.search, { ...asked, limit: 25, cursor: pageParam }, signal),
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

/** Sums of the `limit` that cost most. */
export const statsBy = (since: string, by: "conversation" | "agent" | "project" | "session" | "branch", limit: number) =>
  queryOptions({
    queryKey: ["stats", since, by, limit],
    queryFn: ({ signal }) => get<Stats>(paths.stats, { since, tz: zone, by, limit }, signal),
  });

/** While a check runs or the journal has something, nothing else tells how it goes. */
const CHECK_MS = 1_000;
const JOURNAL_MS = 3_000;

export const health = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => get<HealthReport>(paths.health, {}, signal),
  refetchInterval: ({ state: { data } }) => {
    if (data?.check.state === "running") return CHECK_MS;
    return (data?.server?.journal_bytes ?? 0) > 0 ? JOURNAL_MS : false;
  },
});

/** Six digits of the SHA-256 of what is behind base64. Where a page without TLS comes from elsewhere, a browser makes none. */
async function shortHash(base64: string): Promise<string | null> {
  if (!window.isSecureContext) return null;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(base64)));
  return Array.from(hash.slice(0, 3), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
