/** Exchanges as strands, like `git log --graph`: one row each, one lane for each branch while it runs. */

import type { Exchange } from "../api";

export interface Edge {
  fromLane: number;
  toLane: number;
  strand: number;
  isDashed: boolean;
}

export interface Row {
  exchange: Exchange;
  lane: number;
  strand: number;
  shape: "turn" | "compaction" | "auxiliary" | "retry";
  /** Lines that come from the row above: lanes that pass, and the bend of a branch that leaves its parent. */
  edges: Edge[];
  beginsHere: boolean;
  endsHere: boolean;
}

export interface Drawn {
  rows: Row[];
  lanes: number;
}

/** Oldest first. A branch leaves its parent's lane at its first exchange, and frees its own after its last. */
export function lanes(exchanges: Exchange[]): Drawn {
  const lastOf = new Map<string, number>();
  const rowOf = new Map<string, number>();
  exchanges.forEach((exchange, at) => {
    lastOf.set(strandOf(exchange), at);
    rowOf.set(exchange.id, at);
    // A parent's lane lives until its last child has left it.
    const parent = rowOf.get(exchange.parent_exchange_id ?? "");
    const above = parent === undefined ? undefined : exchanges[parent];
    if (above && strandOf(above) !== strandOf(exchange)) lastOf.set(strandOf(above), Math.max(at, lastOf.get(strandOf(above)) ?? 0));
  });
  const laneOf = new Map<string, number>();
  const numberOf = new Map<string, number>();
  const busy: (string | null)[] = [];
  const rows: Row[] = [];
  let most = 0;
  exchanges.forEach((exchange, at) => {
    const strand = strandOf(exchange);
    const parent = exchanges[rowOf.get(exchange.parent_exchange_id ?? "") ?? -1];
    const isNew = !laneOf.has(strand);
    const passing: Edge[] = [];
    busy.forEach((other, lane) => {
      // A lane whose last child leaves it here ends in that child's bend.
      const isOver = other !== strand && (lastOf.get(other ?? "") ?? 0) <= at;
      if (other !== null && !isOver) passing.push({ fromLane: lane, toLane: lane, strand: numberOf.get(other) ?? 0, isDashed: false });
    });
    if (isNew) {
      let lane = busy.indexOf(null);
      if (lane < 0) lane = busy.length;
      busy[lane] = strand;
      laneOf.set(strand, lane);
      numberOf.set(strand, numberOf.size);
      const from = parent ? laneOf.get(strandOf(parent)) : undefined;
      if (from !== undefined) passing.push({ fromLane: from, toLane: lane, strand: numberOf.get(strand) ?? 0, isDashed: exchange.rewritten });
    }
    const lane = laneOf.get(strand) ?? 0;
    for (const edge of passing) if (edge.fromLane === lane && edge.toLane === lane) edge.isDashed = exchange.rewritten;
    const endsHere = (lastOf.get(strand) ?? 0) <= at;
    rows.push({ exchange, lane, strand: numberOf.get(strand) ?? 0, shape: shapeOf(exchange), edges: passing, beginsHere: isNew, endsHere });
    most = Math.max(most, busy.length);
    busy.forEach((other, index) => {
      if (other !== null && (lastOf.get(other) ?? 0) <= at) busy[index] = null;
    });
  });
  return { rows, lanes: most };
}

function strandOf(exchange: Exchange): string {
  return exchange.branch_key ?? exchange.branch_id ?? "main";
}

function shapeOf(exchange: Exchange): Row["shape"] {
  if (exchange.kind === "turn" && exchange.branch_kind === "compact" && exchange.link.method !== "prefix") return "compaction";
  return exchange.kind;
}
