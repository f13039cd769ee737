import { expect, test } from "vitest";
import { lineOf, toolOf, withoutCalls } from "./tools";

test.each([
  ["Read", { file_path: "a.rs", offset: 10, limit: 5 }, "read", "a.rs:10–14"],
  ["Bash", { command: "cargo test" }, "shell", "cargo test"],
  ["shell", { command: ["ls", "-l"] }, "shell", "ls -l"],
  ["Grep", { pattern: "x", path: "src" }, "search", "x in src"],
  ["Task", { subagent_type: "Explore", description: "Look" }, "agent", "Explore: Look"],
  ["TodoWrite", { todos: [{ content: "a", status: "completed" }, { content: "b", status: "pending" }] }, "todo", "1 of 2 done"],
  ["WebFetch", { url: "https://example.org" }, "web", "https://example.org"],
  ["mcp__x__y", { a: 1 }, "other", '{ "a": 1 }'],
  ["Edit", { file_path: "a.rs", old_string: "x", new_string: "y" }, "edit", "a.rs"],
])("%s is shown as what it does", (name, input, kind, line) => {
  const tool = toolOf({ name, input });
  expect([tool.is, lineOf(tool)]).toEqual([kind, line]);
});

test("arguments of any shape do no harm", () => {
  for (const input of [null, 7, "text", [], { file_path: 3 }, { todos: [null, 1] }, { edits: "x" }]) {
    for (const name of ["Read", "Edit", "Bash", "TodoWrite", "Task", "x"]) expect(typeof lineOf(toolOf({ name, input }))).toBe("string");
  }
});

test("lines that stand for calls are told from what was said", () => {
  expect(withoutCalls("I look.\n\n📄 Reading file: a.rs\n🔧 Using tool: x")).toEqual({ said: "I look.", calls: ["Reading file: a.rs", "Using tool: x"] });
  expect(withoutCalls("📄 is a sign\nof paper")).toEqual({ said: "📄 is a sign\nof paper", calls: [] });
});
