/** Filters of the list of conversations, as the address has them. */

import type { Conversation } from "../api";

export interface Filters {
  text: string;
  /** Times for the API: the reader's days, whole. */
  since: string | null;
  until: string | null;
  cost: number;
  model: string;
  agent: string;
  project: string;
  isAny: boolean;
}

export function readFilters(query: URLSearchParams): Filters {
  const text = query.get("q") ?? "";
  const since = boundary(query.get("since"), "T00:00:00");
  const until = boundary(query.get("until"), "T23:59:59.999");
  const cost = Math.max(0, Number.parseFloat(query.get("cost") ?? "0") || 0);
  const [model, agent, project] = [query.get("model") ?? "", query.get("agent") ?? "", query.get("project") ?? ""];
  const isAny = text + model + agent + project !== "" || since !== null || until !== null || cost > 0;
  return { text, since, until, cost, model, agent, project, isAny };
}

function boundary(day: string | null, time: string): string | null {
  const at = new Date(`${day ?? ""}${time}`);
  return day === null || Number.isNaN(at.getTime()) ? null : at.toISOString();
}

/** Every word is in the title or the name, in any case. */
export function matches(one: Conversation, filters: Filters): boolean {
  if (one.cost_usd < filters.cost) return false;
  const words = filters.text.toLowerCase().split(/\s+/);
  const where = `${one.title ?? ""} ${one.friendly_id ?? ""} ${one.conversation_id}`.toLowerCase();
  return words.every((word) => where.includes(word));
}
