/** Agents as a tree: roots newest first, children oldest first, those whose parent is not known apart. */

import type { Agent } from "../api";

export interface AgentNode {
  agent: Agent;
  depth: number;
  children: number;
}

export interface AgentGroups {
  known: AgentNode[];
  orphans: AgentNode[];
}

/** Deeper ones are shown at this depth. */
const DEPTH_MAX = 32;

export function agentTree(agents: Agent[]): AgentGroups {
  const key = (agent: Agent, id: string) => `${agent.conversation_id}\n${id}`;
  const known = new Map(agents.map((agent) => [key(agent, agent.id), agent]));
  const below = new Map<string, Agent[]>();
  const roots: Agent[] = [];
  for (const agent of agents) {
    const parent = agent.parent_id === null || agent.orphan ? undefined : known.get(key(agent, agent.parent_id));
    if (!parent || parent === agent) {
      roots.push(agent);
      continue;
    }
    const at = key(parent, parent.id);
    below.set(at, [...(below.get(at) ?? []), agent]);
  }
  // A root is as new as what happened last below it.
  const newest = new Map<string, string>();
  for (const agent of agents) {
    const before = newest.get(agent.conversation_id) ?? "";
    if (agent.updated_at > before) newest.set(agent.conversation_id, agent.updated_at);
  }
  const age = (agent: Agent) => newest.get(agent.conversation_id) ?? agent.updated_at;
  roots.sort((a, b) => age(b).localeCompare(age(a)) || a.started_at.localeCompare(b.started_at));
  const flat = (of: Agent[]): AgentNode[] => {
    const nodes: AgentNode[] = [];
    const met = new Set<Agent>();
    const walk = (agent: Agent, depth: number) => {
      if (met.has(agent)) return;
      met.add(agent);
      const children = below.get(key(agent, agent.id)) ?? [];
      nodes.push({ agent, depth: Math.min(depth, DEPTH_MAX), children: children.length });
      const inOrder = [...children].sort((a, b) => a.started_at.localeCompare(b.started_at));
      for (const child of inOrder) walk(child, depth + 1);
    };
    for (const agent of of) walk(agent, 0);
    return nodes;
  };
  return { known: flat(roots.filter((agent) => !agent.orphan)), orphans: flat(roots.filter((agent) => agent.orphan)) };
}

/** What an agent cost with all that it started, at any depth. */
export function subtreeCost(agents: Agent[], id: string): number {
  let cost = 0;
  const met = new Set<string>();
  const waiting = [id];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (met.has(next)) continue;
    met.add(next);
    for (const agent of agents) {
      if (agent.id === next) cost += agent.cost_usd;
      if (agent.parent_id === next) waiting.push(agent.id);
    }
  }
  return cost;
}
