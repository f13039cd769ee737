/**
 * Exchanges as strands, like `git log --graph`: one row each, one lane for each branch while it runs. An agent's strand comes back to
 * who started it, and what one branch quotes of another is a wire between the two.
 *
 * A lane that passes a thousand rows is one line, not a thousand: a wide tree has as many lines as branches, and what is drawn of it
 * on a screen does not grow with its length.
 */

import type { Exchange, Merge } from "../api";

type Look = "line" | "dashed" | "wire";

/** A straight piece of a lane. `from` and `to` are in rows from the top: 2 is the upper edge of the third row, 2.5 its middle. */
export interface Line {
  lane: number;
  strand: number;
  look: Look;
  from: number;
  to: number;
}

/** A turn inside one row: in from a lane above to the node, or out of the node to a lane below. */
export interface Bend {
  row: number;
  part: "in" | "out";
  fromLane: number;
  toLane: number;
  strand: number;
  look: Look;
}

export interface Row {
  exchange: Exchange;
  /** Exchanges behind it that are folded into its row. */
  folded: Exchange[];
  lane: number;
  strand: number;
  shape: "turn" | "compaction" | "auxiliary" | "retry" | "run";
  beginsHere: boolean;
}

export interface Drawn {
  rows: Row[];
  lines: Line[];
  /** In the order of their rows. */
  bends: Bend[];
  lanes: number;
  /** The row of each exchange, also of those that are folded. */
  rowOf: ReadonlyMap<string, number>;
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
  const lines: Line[] = [];
  const bends: Bend[] = [];
  let most = 0;
  const rows = beads.map(({ exchange, rest }, at): Row => {
    const own = strands.get(strandOf(exchange));
    if (!own) throw new Error("every exchange has a strand");
    const beginsHere = own.first === at;
    const look = exchange.rewritten ? "dashed" : "line";
    if (beginsHere) {
      own.lane = take(own);
      if (own.parent) bends.push({ row: at, part: "in", fromLane: own.parent.lane, toLane: own.lane, strand: own.number, look });
    }
    const { lane } = own;
    busy.forEach((by, from) => {
      if (by === null || by.until !== at || by === own) return;
      if (by.is === "wire") bends.push({ row: at, part: "in", fromLane: from, toLane: lane, strand: by.strand, look: "wire" });
      else if (by.rejoins === at) bends.push({ row: at, part: "in", fromLane: from, toLane: lane, strand: by.number, look: "line" });
    });
    for (const wire of wires.get(at) ?? []) {
      wire.strand = own.number;
      const toLane = take(wire);
      bends.push({ row: at, part: "out", fromLane: lane, toLane, strand: own.number, look: "wire" });
      lines.push({ lane: toLane, strand: own.number, look: "wire", from: at + 1, to: wire.until });
    }
    most = Math.max(most, busy.length);
    busy.forEach((by, index) => {
      if (by !== null && by.until <= at) busy[index] = null;
    });
    return { exchange, folded: rest, lane, strand: own.number, shape: rest.length > 0 ? "run" : shapeOf(exchange), beginsHere };
  });
  for (const own of strands.values()) lines.push(...linesOf(own, beads));
  return { rows, lines: lines.filter(({ from, to }) => to > from), bends, lanes: most, rowOf };
}

/** A strand's lane from its first node down: dashed in the rows that were rewritten, to its last node or to where it is left. */
function linesOf(own: Strand, beads: Bead[]): Line[] {
  const { lane, number: strand } = own;
  const end = own.until > own.last ? own.until : own.last + 0.5;
  const lines: Line[] = [];
  let from = own.first + 0.5;
  for (const at of own.rows) {
    if (at === own.first || !beads[at]?.exchange.rewritten) continue;
    const to = Math.min(at + 1, end);
    lines.push({ lane, strand, look: "line", from, to: at }, { lane, strand, look: "dashed", from: at, to });
    from = to;
  }
  lines.push({ lane, strand, look: "line", from, to: end });
  return lines;
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
  /** Known once its first row is drawn. */
  lane: number;
  first: number;
  last: number;
  rows: number[];
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
  const isAgent = new Set<Strand>();
  beads.forEach(({ exchange }, at) => {
    const key = strandOf(exchange);
    let own = strands.get(key);
    if (!own) {
      const above = rowOf.get(exchange.parent_exchange_id ?? "");
      const parentKey = above === undefined || above >= at ? undefined : beads[above]?.exchange;
      const parent = parentKey === undefined ? null : (strands.get(strandOf(parentKey)) ?? null);
      own = { is: "strand", number: strands.size, lane: 0, first: at, last: at, rows: [], until: at, parent, rejoins: null };
      strands.set(key, own);
      if (exchange.branch_kind === "subtask") isAgent.add(own);
      // A parent's lane lives until its last child has left it.
      if (parent) parent.until = Math.max(parent.until, at);
    }
    own.last = at;
    own.until = Math.max(own.until, at);
    own.rows.push(at);
  });
  // Children before parents: who comes back does so after all that it started itself.
  for (const own of [...strands.values()].reverse()) {
    if (!isAgent.has(own) || !own.parent) continue;
    const [mine, parents] = [new Set(own.rows), own.parent.rows];
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
