/** What the common tools of clients do, told from their names and arguments, so that each is shown as what it is. */

import { record, type Call } from "./session";

export type Tool =
  | { is: "read"; path: string; lines: string | null }
  | { is: "edit"; path: string; edits: { before: string; after: string }[] }
  | { is: "write"; path: string; text: string }
  | { is: "shell"; command: string; about: string | null }
  | { is: "search"; pattern: string; where: string | null }
  | { is: "web"; what: string }
  | { is: "todo"; items: { text: string; state: string }[] }
  | { is: "agent"; name: string; task: string }
  | { is: "other"; input: string };

export function toolOf(call: Call): Tool {
  const input = record(call.input);
  const word = (...names: string[]) => {
    const found = names.map((name) => input[name]).find((value) => typeof value === "string" && value !== "");
    return typeof found === "string" ? found : "";
  };
  switch (call.name.toLowerCase()) {
    case "read":
    case "read_file":
    case "view":
    case "notebookread":
      return { is: "read", path: word("file_path", "filePath", "path", "notebook_path"), lines: range(input) };
    case "edit":
    case "multiedit":
    case "str_replace":
      return { is: "edit", path: word("file_path", "filePath", "path"), edits: editsOf(input) };
    case "write":
    case "write_file":
    case "create":
      return { is: "write", path: word("file_path", "filePath", "path"), text: word("content", "contents", "file_text") };
    case "bash":
    case "shell":
    case "exec_command":
    case "local_shell":
    case "shell_command":
      return { is: "shell", command: word("command", "cmd") || commandOf(input.command), about: word("description") || null };
    case "grep":
    case "glob":
    case "search":
    case "ls":
    case "list":
      return { is: "search", pattern: word("pattern", "query", "path"), where: word("path", "include", "glob") || null };
    case "webfetch":
    case "websearch":
    case "web_search":
    case "web_fetch":
      return { is: "web", what: word("url", "query") };
    case "todowrite":
    case "todo_write":
    case "update_plan":
      return { is: "todo", items: todosOf(input) };
    case "task":
    case "agent":
    case "runsubagent":
    case "run_subagent":
    case "spawn_agent":
      return {
        is: "agent",
        name: word("subagent_type", "agentName", "agent_type", "mode", "name") || "agent",
        task: word("description", "prompt", "message"),
      };
    default:
      return { is: "other", input: typeof call.input === "string" ? call.input : JSON.stringify(call.input ?? {}, null, 2) };
  }
}

function range(input: Record<string, unknown>): string | null {
  const [from, count] = [input.offset, input.limit];
  if (typeof from !== "number" && typeof count !== "number") return null;
  const first = typeof from === "number" ? from : 1;
  return typeof count === "number" ? `${first}–${first + count - 1}` : `from ${first}`;
}

function editsOf(input: Record<string, unknown>): { before: string; after: string }[] {
  const each = Array.isArray(input.edits) ? input.edits : [input];
  return each.map((edit: unknown) => {
    const { old_string, new_string, oldString, newString, old_str, new_str } = record(edit);
    const text = (...values: unknown[]) => String(values.find((value) => typeof value === "string") ?? "");
    return { before: text(old_string, oldString, old_str), after: text(new_string, newString, new_str) };
  });
}

function commandOf(command: unknown): string {
  return Array.isArray(command) ? command.map(String).join(" ") : "";
}

function todosOf(input: Record<string, unknown>): { text: string; state: string }[] {
  const items = Array.isArray(input.todos) ? input.todos : Array.isArray(input.plan) ? input.plan : [];
  return items.map((item: unknown) => {
    const { content, step, status } = record(item);
    return { text: String(content ?? step ?? ""), state: String(status ?? "pending") };
  });
}

/** What follows the tool's name in its line. */
export function lineOf(tool: Tool): string {
  switch (tool.is) {
    case "read":
      return tool.lines ? `${tool.path}:${tool.lines}` : tool.path;
    case "edit":
    case "write":
      return tool.path;
    case "shell":
      return tool.command;
    case "search":
      return tool.where && tool.where !== tool.pattern ? `${tool.pattern} in ${tool.where}` : tool.pattern;
    case "web":
      return tool.what;
    case "todo":
      return `${tool.items.filter((item) => item.state === "completed").length} of ${tool.items.length} done`;
    case "agent":
      return `${tool.name}: ${tool.task}`;
    case "other":
      return tool.input === "{}" ? "" : tool.input.replace(/\s+/g, " ");
  }
}

/** How the lines begin that stand for calls of tools in a message's text. */
const SUMMARY = /^(?:📄|✏️|📁|🔍|💻|🌐|📓|📝|🤖|📋|🔧) /u;

/** A message's text, and the lines at its end that stand for calls of tools, without their signs. */
export function withoutCalls(text: string): { said: string; calls: string[] } {
  const lines = text.split("\n");
  let end = lines.length;
  while (end > 0 && SUMMARY.test(lines[end - 1] ?? "")) end -= 1;
  return { said: lines.slice(0, end).join("\n").trim(), calls: lines.slice(end).map((line) => line.replace(SUMMARY, "")) };
}
