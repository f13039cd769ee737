import { expect, test } from "vitest";
import type { Agent } from "../api";
import { agentTree } from "./agents";

function agent(id: string, conversation: string, at: number, more: Partial<Agent> = {}): Agent {
  const time = new Date(at * 1000).toISOString();
  return { id, conversation_id: conversation, started_at: time, updated_at: time, parent_id: null, orphan: false, ...more } as Agent;
}

test("roots come newest first, children oldest first, orphans apart", () => {
  const { known, orphans } = agentTree([
    agent("main", "old", 1),
    agent("main", "new", 5),
    agent("late", "new", 9, { parent_id: "main" }),
    agent("early", "new", 7, { parent_id: "main" }),
    agent("nested", "new", 8, { parent_id: "early" }),
    agent("lost", "old", 3, { orphan: true, parent_id: "main" }),
  ]);
  expect(known.map((node) => [node.agent.id, node.depth])).toEqual([["main", 0], ["early", 1], ["nested", 2], ["late", 1], ["main", 0]]);
  expect(orphans.map((node) => node.agent.id)).toEqual(["lost"]);
});

test("agents that started each other are each shown once", () => {
  const { known } = agentTree([agent("root", "c", 1), agent("a", "c", 2, { parent_id: "a" })]);
  expect(known.map((node) => node.agent.id).sort()).toEqual(["a", "root"]);
});
