import { expect, test } from "vitest";
import type { NamedMessage, TreeMessage } from "../api";
import { partsOf, Session } from "./session";

let clock = 0;

function message(uuid: string, parent: string | null, more: Partial<TreeMessage> = {}): TreeMessage {
  clock += 1;
  return {
    uuid,
    parent_uuid: parent,
    type: uuid.startsWith("u") ? "user" : "assistant",
    content: uuid,
    timestamp: new Date(clock * 1000).toISOString(),
    is_sidechain: false,
    model: null,
    cost_usd: null,
    usage: null,
    message_data: null,
    branch: null,
    place: parent === null ? "root" : "child",
    agent_id: null,
    tool_use_id: null,
    exchange_id: null,
    ...more,
  };
}

function tool(uuid: string, parent: string, content: string, more: Partial<TreeMessage> = {}): TreeMessage {
  const type = uuid.includes("result") ? "tool_result" : "tool_use";
  return message(uuid, parent, { type, content, is_sidechain: true, ...more });
}

function named(uuid: string, index: number, more: Partial<NamedMessage> = {}): NamedMessage {
  return { uuid, index, short_hash: `hash${index}`, reference: `@${index}`, type: "user", branch: { id: "main" }, exchange_id: null, ...more };
}

const shown = (session: Session, via: string | null = null) => session.path(null, via).map((step) => step.message.uuid);

test("the active path is shown, and another through its branch", () => {
  const all = [message("u1", null), message("a1", "u1"), message("u2", "a1"), message("a2", "u2"), message("a1b", "u1")];
  const session = new Session(all, [named("u1", 1), named("a1", 2), named("u2", 3), named("a2", 4)]);
  expect(shown(session)).toEqual(["u1", "a1", "u2", "a2"]);
  expect(shown(session, "a1b")).toEqual(["u1", "a1b"]);
  expect(session.path(null, null)[1]).toMatchObject({ siblings: ["a1", "a1b"], names: { index: 2, hash: "hash2" } });
  expect(session.resolve("hash3")).toBe("u2");
  expect(session.resolve("4")).toBe("a2");
  expect(session.resolve("nothing")).toBeNull();
});

test("without names the branch that went on last is shown", () => {
  const all = [message("u1", null), message("a1", "u1"), message("a2", "u1"), message("u3", "a2"), message("u2", "a1")];
  expect(shown(new Session(all, []))).toEqual(["u1", "a1", "u2"]);
});

test("an answer is named through its exchange where its id is the provider's", () => {
  const all = [message("u1", null), message("msg_a", "u1", { exchange_id: "e1" })];
  const session = new Session(all, [named("node-uuid", 2, { type: "assistant", exchange_id: "e1" })]);
  expect(session.namesOf("msg_a")).toMatchObject({ index: 2, hash: "hash2" });
});

test("a compaction goes on below a mark", () => {
  const all = [message("u1", null), message("a1", "u1"), message("u2", null, { content: "This session is being continued from …" })];
  expect(new Session(all, []).path(null, null).map((step) => step.mark)).toEqual([null, null, "compacted"]);
});

test("tools are grouped by the answer that called them, with results, errors and agents", () => {
  const call = (name: string) => JSON.stringify({ type: "tool_use", name, input: { file_path: "x" } });
  const all = [
    message("u1", null),
    message("a1", "u1"),
    tool("a1_tool_0", "a1", call("Read")),
    tool("a1_result_0", "a1_tool_0", "text", { is_error: true }),
    tool("a1_tool_1", "a1", call("Task")),
    message("u-sub", "a1_tool_1", { is_sidechain: true, agent_id: "sub" }),
    message("a-sub", "u-sub", { is_sidechain: true, agent_id: "sub" }),
    tool("lost_result", "gone", "no parent"),
  ];
  const session = new Session(all, []);
  expect(shown(session)).toEqual(["u1", "a1"]);
  expect(session.path("sub", null).map((step) => step.message.uuid)).toEqual(["u-sub", "a-sub"]);
  const groups = session.groups(session.path(null, null), null);
  expect(groups.map((group) => group.cause?.uuid ?? null)).toEqual(["a1", null]);
  const [read, task] = groups[0]?.operations ?? [];
  expect(read).toMatchObject({ isError: true, call: { name: "Read" } });
  expect(task?.agents.map((agent) => agent.agent_id)).toEqual(["sub"]);
  expect(session.counts()).toEqual({ messages: 8, sidechains: 6, tools: 4, parents: 6 });
});

test("a circle ends", () => {
  const session = new Session([message("u1", null), message("a1", "u1"), message("u1", "a1")], []);
  expect(shown(session).length).toBeLessThan(20);
});

test("reminders and tools are not what was said", () => {
  const content = [
    { type: "text", text: "<system-reminder>x</system-reminder>" },
    { type: "text", text: "Do it.\n<System-Reminder>\ny\n</System-Reminder>" },
    { type: "tool_use", name: "Bash" },
    { type: "thinking", thinking: "hm" },
    { type: "image", source: { media_type: "image/png" } },
    { type: "strange", value: 1 },
  ];
  const parts = partsOf(message("u1", null, { message_data: { role: "user", content } }));
  expect(parts.map((part) => part.is)).toEqual(["text", "thinking", "image", "other"]);
  expect(parts[0]).toEqual({ is: "text", text: "Do it." });
});

test("an exchange tells its prompt and its answer, and no prompt where tools had answered", () => {
  const session = new Session(
    [message("u1", null), message("a1", "u1", { exchange_id: "e1" }), tool("a1_tool_0", "a1", "{}"), message("a2", "a1", { exchange_id: "e2" })],
    [],
  );
  expect(session.saidIn("e1")).toEqual({ asked: "u1", answered: "a1" });
  expect(session.saidIn("e2")).toEqual({ asked: "", answered: "a2" });
  expect(session.saidIn("nothing")).toEqual({ asked: "", answered: "" });
});
