/** The API as the dashboard uses it: docs/api.md has all of it. */

export interface Tokens {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
}

export interface Conversation {
  conversation_id: string;
  friendly_id: string | null;
  title: string | null;
  started_at: string;
  last_at: string;
  exchanges: number;
  turns: number;
  branches: number;
  agents: number;
  tokens: Tokens;
  cost_usd: number;
}

export interface Agent {
  id: string;
  name: string | null;
  is_main: boolean;
  conversation_id: string;
  branch_id: string | null;
  status: "streaming" | "complete" | "error" | "idle";
  model: string | null;
  started_at: string;
  updated_at: string;
  exchanges: number;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
  estimated_input_tokens: number | null;
  max_input_tokens: number | null;
  context_fill: number | null;
  parent_id: string | null;
  link: { method: string; confidence: number };
  orphan: boolean;
}

export interface Branch {
  branch_id: string;
  branch_key: string;
  kind: "main" | "edit" | "regeneration" | "compact" | "subtask";
  from_branch_key: string | null;
  first_exchange_id: string;
  started_at: string;
  agent: Agent | null;
}

export interface ConversationTree {
  conversation: Conversation;
  branches: Branch[];
  total: number;
  next_cursor: string | null;
}

export interface Usage {
  input_tokens: number | null;
  output_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  reasoning_tokens: number | null;
}

/** A message of the active path, with its names. */
export interface NamedMessage {
  uuid: string;
  index: number | null;
  short_hash: string | null;
  reference: string | null;
  type: "user" | "assistant" | "tool_result" | "system";
  branch: { id: string | null };
  exchange_id: string | null;
}

/** A message of the whole tree. */
export interface TreeMessage {
  uuid: string;
  parent_uuid: string | null;
  type: "user" | "assistant" | "tool_use" | "tool_result" | "system";
  content: string;
  timestamp: string | null;
  is_sidechain: boolean;
  model: string | null;
  cost_usd: number | null;
  usage: Usage | null;
  message_data: { role: string; content: unknown } | null;
  branch: { index: number; of: number } | null;
  place: "child" | "root" | "fork" | "orphan" | "cycle";
  agent_id: string | null;
  tool_use_id: string | null;
  /** Of a tool's result. */
  is_error?: boolean;
  exchange_id: string | null;
}

export interface Exchange {
  id: string;
  at: string;
  provider: string;
  model: string | null;
  kind: "turn" | "auxiliary" | "retry" | "compaction";
  status: string;
  conversation_id: string | null;
  friendly_id: string | null;
  branch_id: string | null;
  branch_key: string | null;
  branch_kind: Branch["kind"] | null;
  rewritten: boolean;
  parent_exchange_id: string | null;
  agent: { id: string | null; name: string | null };
  link: { method: string | null; confidence: number | null; reason: string };
  usage: Usage;
  cost_usd: number | null;
  latency_ms: number | null;
  first_byte_ms: number | null;
  reuse: "none" | "hit" | "stored";
  system_hash: string | null;
  toolset_hash: string | null;
  [member: string]: unknown;
}

export interface Explanation {
  exchange: Exchange;
  shared_blocks: number;
  discontinuous: boolean;
  orphan: boolean;
  reason: string;
  rejected: { exchange_id: string; reason: string }[];
}

export interface Hit {
  exchange_id: string;
  conversation_id: string | null;
  friendly_id: string | null;
  branch_id: string | null;
  at: string;
  model: string | null;
  said_by: string;
  snippet: string;
}

/** A conversation that begins as was typed, or a message of one whose name is whole. */
export interface Suggestion {
  kind: "conversation" | "message";
  friendly_id: string;
  short_hash: string | null;
  index: number | null;
  text: string | null;
}

export interface Sums extends Tokens {
  exchanges: number;
  cost_usd: number;
  cost_is_estimate: boolean;
  reuse: { hits: number; saved_usd: number };
}

export interface Stats {
  total: Sums;
  models: Record<string, Sums>;
  days: Record<string, Record<string, Sums>>;
  is_cut_off: boolean;
  storage: { exchanges: number; bytes_in: number; stored_bytes: number; ratio: number | null };
}

export interface Health {
  status: "ok" | "degraded";
  version: string;
  store: "up" | "opening" | "down";
  journal_bytes: number;
  search_lag_texts: number;
  search_lag_ms: number;
  exchanges_not_kept: number;
  exchanges_rejected: number;
}

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

async function ask(url: string, signal?: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, signal ? { signal } : {});
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "the server does not answer", "is `ropewalk serve` still running?");
  }
  if (answer.ok) return answer;
  const told = (await answer.json().catch(() => null)) as { error?: { kind?: string; message?: string; hint?: string } } | null;
  const error = told?.error;
  throw new ApiError(answer.status, error?.kind ?? "unknown", error?.message ?? `status ${answer.status}`, error?.hint ?? null);
}

export async function get<T>(path: string, asked: Asked = {}, signal?: AbortSignal): Promise<T> {
  return (await (await ask(address(path, asked), signal)).json()) as T;
}

export async function getBytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  return await (await ask(path, signal)).arrayBuffer();
}

const name = encodeURIComponent;

export const paths = {
  conversations: "/api/v1/conversations",
  conversation: (id: string) => `/api/v1/conversations/${name(id)}`,
  named: (id: string) => `/api/v1/conversations/${name(id)}/messages`,
  messages: (id: string) => `/api/v1/sessions/${name(id)}/messages`,
  exchanges: "/api/v1/exchanges",
  exchange: (id: string) => `/api/v1/exchanges/${name(id)}`,
  half: (id: string, half: "request" | "response" | "sent") => `/api/v1/exchanges/${name(id)}/${half}`,
  agents: "/api/v1/agents",
  search: "/api/v1/search",
  references: "/api/v1/references",
  stats: "/api/v1/stats",
  events: "/api/v1/events",
  health: "/healthz",
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
