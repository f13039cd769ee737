/**
 * A conversation's messages as a tree, and what is read out of it: the path that is shown, the siblings at each place, and the
 * tool operations beside it, grouped by the assistant message that caused them.
 */

import type { NamedMessage, TreeMessage } from "../api";

export interface Names {
  index: number | null;
  hash: string | null;
  reference: string | null;
  branch: string | null;
}

/** A message on the path, with its alternatives. */
export interface Step {
  message: TreeMessage;
  names: Names;
  /** The messages that could stand here, this one among them, in the order of time. */
  siblings: string[];
  /** What separates it from the one above, where that is no simple continuation. */
  mark: "compacted" | "restarted" | null;
}

export interface Operation {
  use: TreeMessage | null;
  result: TreeMessage | null;
  call: Call;
  isError: boolean;
  /** The agents that it started, by the id of their first message. */
  agents: TreeMessage[];
}

export interface Call {
  name: string;
  input: unknown;
}

export interface Group {
  /** The assistant message that caused the operations; none for those without a parent. */
  cause: TreeMessage | null;
  operations: Operation[];
}

const NOBODY: ReadonlySet<string> = new Set();
/** Messages below one in which the answer that it came with is looked for: a turn has few. */
const NEAR_MAX = 256;
const NO_NAMES: Names = { index: null, hash: null, reference: null, branch: null };

export class Session {
  readonly messages: TreeMessage[];
  private readonly byId = new Map<string, TreeMessage>();
  private readonly below = new Map<string, TreeMessage[]>();
  private readonly names = new Map<string, Names>();
  /** The first of each exchange: a log may tell an answer in several. */
  private readonly answers = new Map<string, TreeMessage>();
  /** Messages on the active path, and those above them. */
  private readonly active = new Set<string>();
  /** The newest time in the subtree of a message. */
  private readonly newest = new Map<string, number>();

  constructor(messages: TreeMessage[], named: NamedMessage[]) {
    this.messages = messages;
    for (const message of messages) {
      this.byId.set(message.uuid, message);
      if (message.parent_uuid !== null) {
        const siblings = this.below.get(message.parent_uuid);
        if (siblings) siblings.push(message);
        else this.below.set(message.parent_uuid, [message]);
      }
    }
    this.nameAll(named);
    this.age();
  }

  /** The answers of logs and of the wire have ids of their own; the exchange says which is which. */
  private nameAll(named: NamedMessage[]): void {
    const lasts = new Map<string, TreeMessage>();
    for (const message of this.messages) {
      if (message.type !== "assistant" || message.exchange_id === null) continue;
      lasts.set(message.exchange_id, message);
      if (!this.answers.has(message.exchange_id)) this.answers.set(message.exchange_id, message);
    }
    for (const one of named) {
      const answer = one.type === "assistant" && one.exchange_id !== null ? lasts.get(one.exchange_id) : undefined;
      const message = this.byId.get(one.uuid) ?? answer;
      if (!message) continue;
      const names = { index: one.index, hash: one.short_hash, reference: one.reference, branch: one.branch.id };
      this.names.set(message.uuid, names);
      this.active.add(message.uuid);
    }
  }

  /** Parents precede their children, so one walk backwards reaches everything. */
  private age(): void {
    for (let at = this.messages.length - 1; at >= 0; at -= 1) {
      const message = this.messages[at];
      if (!message || message.is_sidechain) continue;
      const own = message.timestamp === null ? 0 : Date.parse(message.timestamp);
      const newest = Math.max(own, this.newest.get(message.uuid) ?? 0);
      this.newest.set(message.uuid, newest);
      const parent = message.parent_uuid;
      if (parent !== null) this.newest.set(parent, Math.max(newest, this.newest.get(parent) ?? 0));
    }
  }

  /** The exchange that a message came with: its own, or that of the first answer below it. */
  exchangeAt(uuid: string): string | null {
    let at = this.byId.get(uuid);
    for (let left = NEAR_MAX; at && left > 0; left -= 1) {
      if (at.exchange_id !== null) return at.exchange_id;
      at = this.choose(this.following(at), NOBODY);
    }
    return null;
  }

  find(uuid: string): TreeMessage | undefined {
    return this.byId.get(uuid);
  }

  /** A message by its uuid, its short hash or its index. */
  resolve(name: string): string | null {
    if (name === "") return null;
    if (this.byId.has(name)) return name;
    for (const [uuid, names] of this.names) if (names.hash === name) return uuid;
    for (const [uuid, names] of this.names) if (String(names.index) === name) return uuid;
    return null;
  }

  namesOf(uuid: string): Names {
    return this.names.get(uuid) ?? NO_NAMES;
  }

  /** What was asked and what was answered in an exchange, as text. Where only tools had answered, nobody asked anything. */
  saidIn(exchange: string): { asked: string; answered: string } {
    const answer = this.answerOf(exchange);
    const above = this.find(answer?.parent_uuid ?? "");
    const asked = above?.type === "user" ? above : undefined;
    const text = (message: TreeMessage | undefined) => (message ? partsOf(message).flatMap((part) => (part.is === "text" ? [part.text] : [])).join("\n") : "");
    return { asked: text(asked), answered: text(answer) };
  }

  /** The message that an exchange's answer is. */
  answerOf(exchange: string): TreeMessage | undefined {
    return this.answers.get(exchange);
  }

  /** What goes on from a message: no tool operations, and an agent's messages only inside that agent. */
  private following(message: TreeMessage): TreeMessage[] {
    const children = this.below.get(message.uuid) ?? [];
    return children.filter((child) => isSaid(child) && child.agent_id === message.agent_id);
  }

  private roots(agent: string | null): TreeMessage[] {
    const isFirst = (message: TreeMessage) => {
      const parent = message.parent_uuid === null ? undefined : this.byId.get(message.parent_uuid);
      return !parent || !isSaid(parent) || parent.agent_id !== message.agent_id;
    };
    return this.messages.filter((message) => isSaid(message) && message.agent_id === agent && isFirst(message));
  }

  /** From the first message to the last, through `via` where that is given, else along the active path. */
  path(agent: string | null, via: string | null): Step[] {
    const chosen = new Set<string>();
    for (let at = this.find(via ?? ""); at && !chosen.has(at.uuid); at = this.find(at.parent_uuid ?? "")) chosen.add(at.uuid);
    const steps: Step[] = [];
    const roots = this.roots(agent);
    for (const root of roots) {
      const isFirst = root === roots[0];
      let mark: Step["mark"] = isFirst ? null : isContinuation(root) ? "compacted" : "restarted";
      let siblings = [root.uuid];
      let at: TreeMessage | undefined = root;
      // A damaged store may lead in a circle; no path is longer than what there is.
      for (let left = this.messages.length; at && left > 0; left -= 1) {
        steps.push({ message: at, names: this.namesOf(at.uuid), siblings, mark });
        mark = null;
        const children = this.following(at);
        siblings = children.map((child) => child.uuid);
        at = this.choose(children, chosen);
      }
    }
    return steps;
  }

  private choose(children: TreeMessage[], chosen: ReadonlySet<string>): TreeMessage | undefined {
    const named = children.find((child) => chosen.has(child.uuid)) ?? children.find((child) => this.active.has(child.uuid));
    if (named) return named;
    const age = (child: TreeMessage) => this.newest.get(child.uuid) ?? 0;
    return children.reduce<TreeMessage | undefined>((best, child) => (!best || age(child) >= age(best) ? child : best), undefined);
  }

  /** The tool operations of a path, each group below what caused it; those without a parent come last. */
  groups(path: Step[], agent: string | null): Group[] {
    const groups: Group[] = [];
    for (const { message } of path) {
      const operations = this.operations(message);
      if (operations.length > 0) groups.push({ cause: message, operations });
    }
    const isLost = (message: TreeMessage) =>
      isTool(message) && message.agent_id === agent && this.find(message.parent_uuid ?? "") === undefined;
    const lost = this.messages.filter(isLost).map((message) => this.operation(message));
    if (lost.length > 0) groups.push({ cause: null, operations: lost });
    return groups;
  }

  operations(message: TreeMessage): Operation[] {
    if (message.type !== "assistant") return [];
    return (this.below.get(message.uuid) ?? []).filter(isTool).map((tool) => this.operation(tool));
  }

  private operation(tool: TreeMessage): Operation {
    const children = this.below.get(tool.uuid) ?? [];
    const use = tool.type === "tool_use" ? tool : null;
    const result = use ? (children.find((child) => child.type === "tool_result") ?? null) : tool;
    return {
      use,
      result,
      call: use ? callOf(use) : { name: "result", input: null },
      isError: result?.is_error === true,
      agents: children.filter((child) => isSaid(child) && child.agent_id !== tool.agent_id),
    };
  }

  /** What an empty panel says it looked at. */
  counts(): { messages: number; sidechains: number; tools: number; parents: number } {
    const parents = new Set<string>();
    let [sidechains, tools] = [0, 0];
    for (const message of this.messages) {
      if (message.is_sidechain) sidechains += 1;
      if (isTool(message)) tools += 1;
      if (message.parent_uuid !== null) parents.add(message.parent_uuid);
    }
    return { messages: this.messages.length, sidechains, tools, parents: parents.size };
  }
}

function isTool(message: TreeMessage): boolean {
  return message.type === "tool_use" || message.type === "tool_result";
}

function isSaid(message: TreeMessage): boolean {
  return message.type === "user" || message.type === "assistant";
}

/** Claude Code begins so after a compaction. */
function isContinuation(message: TreeMessage): boolean {
  return message.content.startsWith("This session is being continued");
}

function callOf(use: TreeMessage): Call {
  const block = record(parsed(use.content));
  const name = block.name ?? record(block.function).name;
  return { name: typeof name === "string" && name !== "" ? name : "tool", input: inputOf(block) };
}

/** Providers send a call's input as a value, or as JSON in a text. */
function inputOf(block: Record<string, unknown>): unknown {
  const input = block.input ?? block.arguments ?? record(block.function).arguments ?? block.args ?? null;
  return typeof input === "string" ? (parsed(input) ?? input) : input;
}

export function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

export type Part =
  | { is: "text"; text: string }
  | { is: "thinking"; text: string }
  | { is: "image"; kind: string; detail: string; length: number }
  | { is: "other"; kind: string; json: string };

/** Pictures and files that a tool gave back, and the exchange whose request has them. */
export function attachedTo(result: TreeMessage): { parts: Part[]; exchange: string | null } {
  const { sent_in: exchange } = record(result.message_data);
  return { parts: partsOf(result).filter((part) => part.is === "image"), exchange: typeof exchange === "string" ? exchange : null };
}

const REMINDER = /\s*<system-reminder>[\s\S]*?<\/system-reminder>/gi;

/** What a message says, block by block. Tool operations are beside it, and reminders are not what anybody said. */
export function partsOf(message: TreeMessage): Part[] {
  const content = message.message_data?.content;
  if (!Array.isArray(content)) return said(typeof content === "string" ? content : message.content);
  return content.flatMap((block: unknown) => partOf(record(block)));
}

function said(text: string): Part[] {
  const bare = text.replace(REMINDER, "").trim();
  return bare === "" ? [] : [{ is: "text", text: bare }];
}

function partOf(block: Record<string, unknown>): Part[] {
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  switch (block.type) {
    case "text":
    case "input_text":
    case "output_text":
      return said(text(block.text));
    case "thinking":
    {
      const thought = text(block.thinking) || text(block.text);
      return thought.trim() === "" ? [] : [{ is: "thinking", text: thought }];
    }
    case "tool_use":
    case "tool_result":
    case "server_tool_use":
    case "redacted_thinking":
      return [];
    case "image":
    case "document": {
      const { base64_length: length, url, file_id } = record(block.source);
      // What is elsewhere is named and never fetched.
      const detail = text(block.media_type) || text(url) || text(file_id);
      return [{ is: "image", kind: String(block.type), detail, length: typeof length === "number" ? length : 0 }];
    }
    default:
      return [{ is: "other", kind: text(block.type) || "block", json: JSON.stringify(block, null, 2) }];
  }
}
