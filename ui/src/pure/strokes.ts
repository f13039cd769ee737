/**
 * What is drawn of a graph between two rows, as few paths: one for each colour and look, however many lanes and nodes there are. The
 * place of the first row is the top.
 */

import type { Bend, Drawn, Row } from "./lanes";

export const COLOURS = 8;

export interface Stroke {
  /** Colour and look, or colour and shape. */
  names: string;
  path: string;
}

/** How large rows are, and lanes. */
export interface Size {
  rowPx: number;
  lanePx: number;
  /** Lanes that have no room are drawn on top of each other at the right. */
  lanesMax: number;
}

const LANE_PX = 14;
const LANE_MIN_PX = 4;

/** Lanes stand as close as they must to have room, and no closer. */
export function sizeOf(lanes: number, roomPx: number, rowPx: number): Size {
  const lanePx = Math.max(LANE_MIN_PX, Math.min(LANE_PX, Math.floor(roomPx / Math.max(lanes, 1))));
  return { rowPx, lanePx, lanesMax: Math.max(1, Math.floor(roomPx / lanePx)) };
}

/** The room that all lanes have. */
export function widthOf(lanes: number, { lanePx, lanesMax }: Size): number {
  return Math.min(lanes, lanesMax) * lanePx + LANE_PX;
}

/** What dashes and dots repeat after, both of them: style.css has their lengths. */
const DASHES_PX = 18;

export function strokes(drawn: Drawn, first: number, end: number, size: Size): Stroke[] {
  const { rowPx } = size;
  const [lines, nodes] = [new Paths(), new Paths()];
  for (const { lane, strand, look, from, to } of drawn.lines) {
    if (from >= end || to <= first) continue;
    // What begins above is cut off there, in the rhythm of its dashes, so that two pictures meet.
    const top = from >= first ? (from - first) * rowPx : -(((first - from) * rowPx) % DASHES_PX);
    lines.add(strand, look, `M${x(lane, size)} ${top}V${(Math.min(to, end) - first) * rowPx}`);
  }
  for (let at = firstBend(drawn.bends, first); at < drawn.bends.length; at += 1) {
    const bend = drawn.bends[at];
    if (!bend || bend.row >= end) break;
    lines.add(bend.strand, bend.look, bent(bend, (bend.row - first) * rowPx, size));
  }
  drawn.rows.slice(first, end).forEach((row, at) => nodes.add(row.strand, `node ${row.shape}`, node(row, (at + 0.5) * rowPx, size)));
  return [...lines.all(), ...nodes.all()];
}

/** Paths with the same names are one. */
class Paths {
  private readonly pieces = new Map<string, string[]>();

  add(strand: number, look: string, piece: string): void {
    const names = `strand-${strand % COLOURS} ${look}`;
    const known = this.pieces.get(names);
    if (known) known.push(piece);
    else this.pieces.set(names, [piece]);
  }

  all(): Stroke[] {
    return [...this.pieces].map(([names, pieces]) => ({ names, path: pieces.join("") }));
  }
}

function x(lane: number, { lanePx, lanesMax }: Size): number {
  return Math.min(lane, lanesMax - 1) * lanePx + LANE_PX / 2;
}

/** The first bend that is not above a row. */
function firstBend(bends: Bend[], row: number): number {
  let [low, high] = [0, bends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bends[middle]?.row ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

function bent({ part, fromLane, toLane }: Bend, top: number, size: Size): string {
  const [from, to] = [x(fromLane, size), x(toLane, size)];
  const [middle, bottom] = [top + size.rowPx / 2, top + size.rowPx];
  if (part === "in") return `M${from} ${top}C${from} ${middle} ${to} ${top} ${to} ${middle}`;
  return `M${from} ${middle}C${from} ${bottom} ${to} ${middle} ${to} ${bottom}`;
}

function node({ lane, shape }: Row, middle: number, size: Size): string {
  const at = x(lane, size);
  const half = Math.min(5, size.rowPx / 3, size.lanePx / 2);
  switch (shape) {
    case "compaction":
      return `M${at} ${middle - half}l${half} ${half}l${-half} ${half}l${-half} ${-half}z`;
    case "run":
      return pill(at, middle, Math.min(3, half * 0.6), half);
    case "turn":
      return disc(at, middle, half * 0.8);
    case "auxiliary":
    case "retry":
      return disc(at, middle, half * 0.5);
  }
}

function disc(at: number, middle: number, radius: number): string {
  return `M${at - radius} ${middle}a${radius} ${radius} 0 1 0 ${radius * 2} 0a${radius} ${radius} 0 1 0 ${-radius * 2} 0z`;
}

function pill(at: number, middle: number, radius: number, half: number): string {
  const side = (half - radius) * 2;
  return `M${at - radius} ${middle - half + radius}a${radius} ${radius} 0 0 1 ${radius * 2} 0v${side}a${radius} ${radius} 0 0 1 ${-radius * 2} 0z`;
}
