/**
 * Exchanges as strands, like `git log --graph`: one row each, one lane for each branch while it runs. An agent's strand comes back to
 * who started it, and what one branch quotes of another is a wire between the two.
 */

import type { Exchange, Merge } from "../api";

/** A line inside one row: straight through, in from above to the node, or out of the node to below. */
export interface Edge {
  part: "through" | "in" | "out";
  fromLane: number;
  toLane: number;
  strand: number;
  look: "line" | "dashed" | "wire";
}

export interface Row {
  exchange: Exchange;
  /** Exchanges behind it that are folded into its row. */
  folded: Exchange[];
  lane: number;
  strand: number;
  shape: "turn" | "compaction" | "auxiliary" | "retry" | "run";
  edges: Edge[];
  beginsHere: boolean;
  /** Its lane is not needed below. */
  endsHere: boolean;
}

export interface Drawn {
  rows: Row[];
  lanes: number;
}

/** Above this many exchanges, runs in which nothing happens but one turn after the other are one row each. */
export const NODES_MAX = 5_000;
/** Shorter runs stay as they are. */
const RUN_MIN = 4;
/** Wires that are drawn; more would be a net. */
const WIRES_MAX = 64;

interface Folding {
  /** Exchanges whose run somebody opened, by its first. */
  opened?: ReadonlySet<string>;
  /** As though there were too many. */
  nodesMax?: number;
}

/** Oldest first. A branch leaves its parent's lane at its first exchange, and frees its own after its last. */
export function lanes(exchanges: Exchange[], merges: Merge[] = [], folding: Folding = {}): Drawn {
  const beads = folded(exchanges, merges, folding);
  const rowOf = new Map<string, number>();
  beads.forEach(({ exchange, rest }, at) => {
    for (const one of [exchange, ...rest]) rowOf.set(one.id, at);
  });
  const spans = merges.flatMap((merge) => {
    const [from, into] = [rowOf.get(merge.from_exchange_id), rowOf.get(merge.into_exchange_id)];
    return from === undefined || into === undefined || from >= into ? [] : [{ from, into }];
  });
  const strands = strandsOf(beads, rowOf, spans);
  // An agent's report that comes back with its strand is no second line.
  const isStrand = ({ from, into }: Span) => strands.get(strandOf(beads[from]?.exchange))?.rejoins === into;
  const wires = wiresOf(spans.filter((span) => !isStrand(span)));
  const busy: (Strand | Wire | null)[] = [];
  const take = (by: Strand | Wire): number => {
    const free = busy.indexOf(null);
    const lane = free < 0 ? busy.length : free;
    busy[lane] = by;
    return lane;
  };
  let most = 0;
  const rows = beads.map(({ exchange, rest }, at): Row => {
    const own = strands.get(strandOf(exchange));
    if (!own) throw new Error("every exchange has a strand");
    const beginsHere = own.first === at;
    const edges: Edge[] = [];
    const bends: Edge[] = [];
    const look = exchange.rewritten ? "dashed" : "line";
    busy.forEach((by, lane) => {
      if (by === null) return;
      if (by === own) edges.push({ part: "through", fromLane: lane, toLane: lane, strand: own.number, look });
      else if (by.is === "wire" || by.rejoins === at) {
        const isWire = by.is === "wire";
        const [strand, drawn] = isWire ? [by.strand, "wire" as const] : [by.number, "line" as const];
        if (by.until === at) bends.push({ part: "in", fromLane: lane, toLane: -1, strand, look: drawn });
        else edges.push({ part: "through", fromLane: lane, toLane: lane, strand, look: drawn });
      } else if (by.until > at) edges.push({ part: "through", fromLane: lane, toLane: lane, strand: by.number, look: "line" });
    });
    if (beginsHere) {
      const from = own.parent === null ? -1 : busy.indexOf(own.parent);
      const lane = take(own);
      if (from >= 0) edges.push({ part: "in", fromLane: from, toLane: lane, strand: own.number, look });
    }
    const lane = busy.indexOf(own);
    for (const bend of bends) edges.push({ ...bend, toLane: lane });
    for (const wire of wires.get(at) ?? []) {
      wire.strand = own.number;
      edges.push({ part: "out", fromLane: lane, toLane: take(wire), strand: own.number, look: "wire" });
    }
    most = Math.max(most, busy.length);
    busy.forEach((by, index) => {
      if (by !== null && by.until <= at) busy[index] = null;
    });
    return { exchange, folded: rest, lane, strand: own.number, shape: rest.length > 0 ? "run" : shapeOf(exchange), edges, beginsHere, endsHere: own.until <= at };
  });
  return { rows, lanes: most };
}

interface Bead {
  exchange: Exchange;
  rest: Exchange[];
}

/** Where there are too many, a run of turns that simply follow each other is its first with the others folded behind it. */
function folded(exchanges: Exchange[], merges: Merge[], { opened = new Set(), nodesMax = NODES_MAX }: Folding): Bead[] {
  if (exchanges.length <= nodesMax) return exchanges.map((exchange) => ({ exchange, rest: [] }));
  const children = new Map<string, number>();
  for (const { parent_exchange_id: parent } of exchanges) if (parent !== null) children.set(parent, (children.get(parent) ?? 0) + 1);
  const marked = new Set(merges.flatMap((merge) => [merge.from_exchange_id, merge.into_exchange_id]));
  const isPlain = (one: Exchange) => shapeOf(one) === "turn" && one.status === "complete" && !one.rewritten && !marked.has(one.id) && (children.get(one.id) ?? 0) <= 1;
  const beads: Bead[] = [];
  for (let at = 0; at < exchanges.length; ) {
    const first = exchanges[at];
    if (!first) break;
    let end = at + 1;
    for (let last = first; end < exchanges.length; end += 1) {
      const next = exchanges[end];
      if (!next || !isPlain(last) || !isPlain(next) || next.parent_exchange_id !== last.id || strandOf(next) !== strandOf(first)) break;
      last = next;
    }
    const run = exchanges.slice(at, end);
    if (run.length < RUN_MIN || opened.has(first.id)) for (const exchange of run) beads.push({ exchange, rest: [] });
    else beads.push({ exchange: first, rest: run.slice(1) });
    at = end;
  }
  return beads;
}

interface Strand {
  is: "strand";
  number: number;
  first: number;
  last: number;
  /** The row behind which its lane is free. */
  until: number;
  parent: Strand | null;
  /** The row of its parent that it comes back to. */
  rejoins: number | null;
}

/** What one row says again of another. */
interface Span {
  from: number;
  into: number;
}

function strandsOf(beads: Bead[], rowOf: Map<string, number>, spans: Span[]): Map<string, Strand> {
  const strands = new Map<string, Strand>();
  const rowsOf = new Map<Strand, number[]>();
  const isAgent = new Set<Strand>();
  beads.forEach(({ exchange }, at) => {
    const key = strandOf(exchange);
    let own = strands.get(key);
    if (!own) {
      const above = rowOf.get(exchange.parent_exchange_id ?? "");
      const parentKey = above === undefined || above >= at ? undefined : beads[above]?.exchange;
      const parent = parentKey === undefined ? null : (strands.get(strandOf(parentKey)) ?? null);
      own = { is: "strand", number: strands.size, first: at, last: at, until: at, parent, rejoins: null };
      strands.set(key, own);
      rowsOf.set(own, []);
      if (exchange.branch_kind === "subtask") isAgent.add(own);
      // A parent's lane lives until its last child has left it.
      if (parent) parent.until = Math.max(parent.until, at);
    }
    own.last = at;
    own.until = Math.max(own.until, at);
    rowsOf.get(own)?.push(at);
  });
  // Children before parents: who comes back does so after all that it started itself.
  for (const own of [...strands.values()].reverse()) {
    if (!isAgent.has(own) || !own.parent) continue;
    const [mine, parents] = [new Set(rowsOf.get(own)), rowsOf.get(own.parent) ?? []];
    // Where its report is quoted, else where its parent goes on.
    const told = spans.find(({ from, into }) => mine.has(from) && into > own.last && parents.includes(into));
    const back = told?.into ?? firstAfter(parents, own.last);
    if (back === undefined || back < own.until) continue;
    own.rejoins = back;
    own.until = back;
  }
  return strands;
}

/** The first of ascending numbers that is larger. */
function firstAfter(numbers: number[], than: number): number | undefined {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] ?? 0) > than) high = middle;
    else low = middle + 1;
  }
  return numbers[low];
}

interface Wire {
  is: "wire";
  until: number;
  strand: number;
}

/** What was quoted from one exchange into a later one, by the row where it begins. */
function wiresOf(spans: Span[]): Map<number, Wire[]> {
  const wires = new Map<number, Wire[]>();
  for (const { from, into } of spans.slice(0, WIRES_MAX)) wires.set(from, [...(wires.get(from) ?? []), { is: "wire", until: into, strand: 0 }]);
  return wires;
}

function strandOf(exchange: Exchange | undefined): string {
  return exchange?.branch_key ?? exchange?.branch_id ?? "main";
}

function shapeOf(exchange: Exchange): Row["shape"] {
  if (exchange.kind === "turn" && exchange.branch_kind === "compact" && exchange.link.method !== "prefix") return "compaction";
  return exchange.kind;
}
