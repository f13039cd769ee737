/** The API as the dashboard uses it: docs/api.md has all of it. */

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Conversation = Schemas["ConversationView"];
export type Agent = Schemas["AgentView"];
export type Merge = Schemas["Merge"];
export type Branch = Schemas["ShownBranch"];
export type ConversationTree = Schemas["Tree"];
export type Usage = Schemas["UsageView"];
/** A message of the active path, with its names. */
export type NamedMessage = Pick<Schemas["MessageView"], "uuid" | "index" | "short_hash" | "reference" | "type" | "exchange_id"> & {
  branch: { id: string | null };
};
/** A message of the whole tree. */
export type TreeMessage = Omit<Schemas["SessionMessage"], Alias | "message_data"> & { message_data: { role: string; content: unknown } | null };
/** Other names of the same, for clients of old. */
type Alias = "_id" | "message_uuid" | "isSidechain" | "created_at" | "session_id" | "session_id_alias" | "parent_uuid_alias";
export type Exchange = Schemas["ExchangeView"];
export type Explanation = Schemas["Explained"];
export type Noted = Schemas["Noted"];
export type Hit = Schemas["FoundText"];
export type Hits = Schemas["Hits"];
/** A conversation that begins as was typed, or a message of one whose name is whole. */
export type Suggestion = Schemas["ReferenceSuggestion"];
export type Sums = Schemas["Sums"];
export type Stats = Schemas["Stats"];
export type ContextChange = Schemas["ShownChange"];
export type Diff = Schemas["Diff"];
export type DiffSide = Schemas["DiffSide"];
export type StoredAnswer = Schemas["StoredAnswer"];
export type CacheStats = Schemas["CacheStats"];
export type Cause = Schemas["CauseKind"];
export type CacheReport = Schemas["CacheReport"];
export type Waste = Schemas["Waste"];
export type NearDuplicates = Schemas["NearDuplicates"];
export type Templates = Schemas["Templates"];
export type Timeline = Schemas["Timeline"];

export type HealthReport = Schemas["HealthReport"];
export type Check = Schemas["Check"];
export type Import = Schemas["Import"];
export type LogFile = Schemas["LogFile"];

/** A page of what is listed. */
export type Page<T> = T & { next_cursor: string | null };

/** What the server said instead of an answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

type Asked = Record<string, string | number | null | undefined>;

export function address(path: string, asked: Asked = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

async function ask(url: string, options: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "the server does not answer", "is `ropewalk serve` still running?");
  }
  if (answer.ok || answer.status === 304) return answer;
  const told = (await answer.json().catch(() => null)) as { error?: { kind?: string; message?: string; hint?: string } } | null;
  const error = told?.error;
  throw new ApiError(answer.status, error?.kind ?? "unknown", error?.message ?? `status ${answer.status}`, error?.hint ?? null);
}

/** Answers that are kept with their tags, so that what did not change is neither sent nor read again. Nothing of it is on disk. */
const kept = new Map<string, { tag: string; data: unknown }>();
const KEPT_MAX = 64;

export async function get<T>(path: string, asked: Asked = {}, signal?: AbortSignal): Promise<T> {
  const url = address(path, asked);
  const known = kept.get(url);
  const options: RequestInit = { cache: "no-store", ...(signal && { signal }), ...(known && { headers: { "if-none-match": known.tag } }) };
  const answer = await ask(url, options);
  if (answer.status === 304 && known) return known.data as T;
  const data = (await answer.json()) as T;
  const tag = answer.headers.get("etag");
  kept.delete(url);
  if (tag !== null) kept.set(url, { tag, data });
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT_MAX) break;
    kept.delete(oldest);
  }
  return data;
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json" };
  return (await (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json()) as T;
}

/** Bytes as they were recorded; nothing of those that are more than somebody would wait for. */
export async function getBytes(path: string, signal?: AbortSignal, bytesMax = Number.POSITIVE_INFINITY): Promise<ArrayBuffer> {
  const answer = await ask(path, signal ? { signal } : {});
  if (Number(answer.headers.get("content-length")) <= bytesMax) return await answer.arrayBuffer();
  await answer.body?.cancel();
  return new ArrayBuffer(0);
}

const name = encodeURIComponent;

export const paths = {
  conversations: "/api/v1/conversations",
  conversation: (id: string) => `/api/v1/conversations/${name(id)}`,
  named: (id: string) => `/api/v1/conversations/${name(id)}/messages`,
  changes: (id: string) => `/api/v1/conversations/${name(id)}/changes`,
  title: (id: string) => `/api/v1/conversations/${name(id)}/title`,
  messages: (id: string) => `/api/v1/sessions/${name(id)}/messages`,
  exchanges: "/api/v1/exchanges",
  exchange: (id: string) => `/api/v1/exchanges/${name(id)}`,
  half: (id: string, half: "request" | "response" | "sent") => `/api/v1/exchanges/${name(id)}/${half}`,
  agents: "/api/v1/agents",
  answers: "/api/v1/answers",
  merges: "/api/v1/merges",
  cache: "/api/v1/cache",
  cacheStats: "/api/v1/cache/stats",
  diff: "/api/v1/diff",
  suggestions: "/api/v1/suggestions",
  templates: "/api/v1/templates",
  timeline: "/api/v1/timeline",
  waste: "/api/v1/waste",
  search: "/api/v1/search",
  references: "/api/v1/references",
  stats: "/api/v1/stats",
  events: "/api/v1/events",
  health: "/api/v1/health",
  check: "/api/v1/health/check",
  imports: "/api/v1/imports",
  audit: "/api/v1/audit",
};

/** Pages that are read to the end, up to a bound that a person would not scroll to. */
export async function all<T>(page: (cursor: string | null) => Promise<{ items: T[]; next: string | null }>, pagesMax: number) {
  const items: T[] = [];
  let cursor: string | null = null;
  for (let read = 0; read < pagesMax; read += 1) {
    const { items: more, next } = await page(cursor);
    items.push(...more);
    if (next === null) return { items, isCut: false };
    cursor = next;
  }
  return { items, isCut: true };
}
