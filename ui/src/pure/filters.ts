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
  // It ran at some time in between: the API has those that went on since, whenever they ended.
  if (filters.until !== null && Date.parse(one.started_at) > Date.parse(filters.until)) return false;
  const words = filters.text.toLowerCase().split(/\s+/);
  const where = `${one.title ?? ""} ${one.friendly_id ?? ""} ${one.conversation_id}`.toLowerCase();
  return words.every((word) => where.includes(word));
}

export interface Chip {
  /** The parameters that it stands for, with spaces between. */
  name: string;
  text: string;
}

/** What is filtered by, each as a few words; what is typed into the box is there already. */
export function chipsOf(query: URLSearchParams): Chip[] {
  const value = (name: string) => query.get(name) ?? "";
  const chips: Chip[] = [];
  const [since, until] = [value("since"), value("until")];
  if (since !== "" && since === until) chips.push({ name: "since until", text: `on ${since}` });
  else {
    if (since !== "") chips.push({ name: "since", text: `since ${since}` });
    if (until !== "") chips.push({ name: "until", text: `until ${until}` });
  }
  if (value("cost") !== "") chips.push({ name: "cost", text: `from $${value("cost")}` });
  for (const name of ["model", "agent", "project"]) if (value(name) !== "") chips.push({ name, text: `${name} ${value(name)}` });
  return chips;
}
