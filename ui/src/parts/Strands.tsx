import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useImperativeHandle, useMemo, useRef, useState, type Ref } from "react";
import type { Exchange, Merge } from "../api";
import { clock, counted, dollars, duration, exact, modelName, moment, short } from "../pure/format";
import { lanes, NODES_MAX, type Drawn, type Edge, type Row } from "../pure/lanes";
import { firstLine, visible } from "../pure/visible";
import { useSight, type Sights } from "../sight";
import { keep, kept } from "../theme";
import { Overview } from "./Overview";

/** Heights of a row, from an overview to a list that is read. */
const ROWS_PX = [8, 14, 20, 26, 34];
const USUAL = 3;
/** Below this there is no room for words. */
const WORDS_PX = 18;
const LANE_PX = 14;
/** More lanes than this are drawn on top of each other at the right. */
const LANES_MAX = 48;
const COLOURS = 8;
const LABEL_CHARS = 120;
const ZOOM_KEY = "ropewalk.zoom";

/** What the keys of the page do in the graph. */
export interface Graph {
  move: (by: number) => void;
  open: () => void;
  zoom: (by: number) => void;
}

interface Shown {
  exchanges: Exchange[];
  merges: Merge[];
  currentExchange: string | null;
  isWide: boolean;
  /** The messages on the screen, and the exchanges that they came with. */
  sights: Sights;
  exchangesOf: (first: number, last: number) => ReadonlySet<string>;
  /** What was said in an exchange: the prompt and the answer. */
  saidIn: (exchange: string) => { asked: string; answered: string };
  onPick: (exchange: Exchange) => void;
  ref?: Ref<Graph>;
}

/** Exchanges as strands, oldest first: one lane for each branch, a colour for each strand. */
export function Strands({ exchanges, merges, currentExchange, isWide, sights, exchangesOf, saidIn, onPick, ref }: Shown) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const drawn = useMemo(() => lanes(exchanges, merges, { opened }), [exchanges, merges, opened]);
  const [zoom, setZoom] = useZoom();
  const height = ROWS_PX[isWide ? zoom : USUAL] ?? 26;
  const box = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<Hovered | null>(null);
  const current = useMemo(() => rowWith(drawn, currentExchange), [drawn, currentExchange]);
  const [cursor, setCursor] = useState(current);
  useEffect(() => setCursor(current), [current]);
  const list = useVirtualizer({
    count: drawn.rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 20,
  });
  useEffect(() => {
    list.measure();
  }, [list, height]);
  useEffect(() => {
    if (cursor >= 0) list.scrollToIndex(cursor, { align: "auto" });
  }, [list, cursor, height]);
  const pick = (row: Row) => {
    if (row.folded.length > 0) setOpened(new Set(opened).add(row.exchange.id));
    else onPick(row.exchange);
  };
  useImperativeHandle(ref, () => ({
    move: (by) => setCursor(Math.max(0, Math.min(drawn.rows.length - 1, cursor + by))),
    open: () => {
      const row = drawn.rows[cursor];
      if (row) pick(row);
    },
    zoom: (by) => setZoom(Math.max(0, Math.min(ROWS_PX.length - 1, zoom + by))),
  }));
  const width = (Math.min(drawn.lanes, LANES_MAX) + 1) * LANE_PX;
  return (
    <div className={isWide ? "strands-pane strands-pane-wide" : "strands-pane"}>
      {isWide && <Legend drawn={drawn} exchanges={exchanges.length} merges={merges.length} />}
      <div
        className={isWide ? "strands strands-wide" : "strands"}
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="Strands"
        onScroll={() => setHovered(null)}
        onPointerLeave={() => setHovered(null)}
      >
        <ol style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => {
            const row = drawn.rows[item.index];
            if (!row) return null;
            const show = (element: Element) => setHovered({ row, place: placeBy(element.getBoundingClientRect(), isWide, width) });
            return (
              <li key={item.key} style={{ transform: `translateY(${item.start}px)` }} className={item.index === cursor ? "current" : ""} data-row={row.exchange.id}>
                <button
                  type="button"
                  style={{ height }}
                  onClick={() => pick(row)}
                  onPointerEnter={(event) => show(event.currentTarget)}
                  onFocus={(event) => event.currentTarget.matches(":focus-visible") && show(event.currentTarget)}
                  onBlur={() => setHovered(null)}
                >
                  <Cell row={row} width={width} height={height} isLast={item.index === drawn.rows.length - 1} />
                  {height >= WORDS_PX && <Label row={row} isWide={isWide} saidIn={saidIn} />}
                </button>
              </li>
            );
          })}
        </ol>
        {!isWide && <InSight drawn={drawn} height={height} sights={sights} exchangesOf={exchangesOf} />}
      </div>
      {isWide && drawn.rows.length * height > 600 && <Overview drawn={drawn} box={box} height={height} />}
      {hovered && <Card of={hovered} saidIn={saidIn} />}
    </div>
  );
}

function useZoom(): [number, (zoom: number) => void] {
  const [zoom, setZoom] = useState(() => {
    const chosen = kept(ZOOM_KEY);
    return chosen === null || ROWS_PX[Number(chosen)] === undefined ? USUAL : Number(chosen);
  });
  const change = (next: number) => {
    setZoom(next);
    keep(ZOOM_KEY, String(next));
  };
  return [zoom, change];
}

/** The row that has an exchange, also folded. */
function rowWith(drawn: Drawn, exchange: string | null): number {
  if (exchange === null) return -1;
  return drawn.rows.findIndex((row) => row.exchange.id === exchange || row.folded.some((one) => one.id === exchange));
}

/** The rows whose messages are on the screen, as a bar beside them. */
function InSight({ drawn, height, sights, exchangesOf }: { drawn: Drawn; height: number } & Pick<Shown, "sights" | "exchangesOf">) {
  const { first, last } = useSight(sights);
  const [from, to] = useMemo(() => {
    const seen = exchangesOf(first, last);
    const rows = drawn.rows.flatMap((row, at) => (seen.has(row.exchange.id) || row.folded.some((one) => seen.has(one.id)) ? [at] : []));
    return [rows[0] ?? 0, rows.at(-1) ?? -1];
  }, [drawn, first, last, exchangesOf]);
  if (to < from) return null;
  return <div className="in-sight" aria-hidden="true" style={{ top: from * height, height: (to - from + 1) * height }} />;
}

function x(lane: number): number {
  return (Math.min(lane, LANES_MAX - 1) + 1) * LANE_PX - LANE_PX / 2;
}

function line(edge: Edge, height: number, isOwnEnd: boolean): string {
  const [from, to, middle] = [x(edge.fromLane), x(edge.toLane), height / 2];
  switch (edge.part) {
    case "through":
      return `M${from} 0V${isOwnEnd ? middle : height}`;
    case "in":
      return `M${from} 0C${from} ${middle} ${to} 0 ${to} ${middle}`;
    case "out":
      return `M${from} ${middle}C${from} ${height} ${to} ${middle} ${to} ${height}`;
  }
}

/** Drawn once: a row has a line for every lane that passes it, and scrolling changes none of them. */
const Cell = memo(function Cell({ row, width, height, isLast }: { row: Row; width: number; height: number; isLast: boolean }) {
  const middle = height / 2;
  const colour = `strand-${row.strand % COLOURS}`;
  const size = Math.min(5, height / 3);
  return (
    <svg width={width} height={height} aria-hidden="true">
      {row.edges.map((edge, at) => {
        const isOwnEnd = edge.toLane === row.lane && (row.endsHere || isLast);
        return <path key={at} d={line(edge, height, isOwnEnd)} className={`strand-${edge.strand % COLOURS} ${edge.look}`} />;
      })}
      {row.beginsHere && !row.endsHere && !isLast && <path d={`M${x(row.lane)} ${middle}V${height}`} className={colour} />}
      {row.shape === "compaction" ? (
        <path d={`M${x(row.lane)} ${middle - size}l${size} ${size}l${-size} ${size}l${-size} ${-size}z`} className={`node ${colour}`} />
      ) : row.shape === "run" ? (
        <rect x={x(row.lane) - 3} y={middle - size} width={6} height={size * 2} rx={3} className={`node ${colour}`} />
      ) : (
        <circle cx={x(row.lane)} cy={middle} r={row.shape === "turn" ? size * 0.8 : size * 0.5} className={`node ${colour} ${row.shape}`} />
      )}
    </svg>
  );
});

/** A time in a branch's name says less than what kind of branch it is. */
function nameOf(exchange: Exchange): string {
  const kind = exchange.branch_kind;
  return exchange.agent.name ?? (kind === "edit" || kind === "regeneration" || kind === "compact" ? kind : (exchange.branch_id ?? ""));
}

function Label({ row, isWide, saidIn }: { row: Row; isWide: boolean } & Pick<Shown, "saidIn">) {
  const { exchange } = row;
  const run = row.folded.length > 0 ? `${counted(row.folded.length + 1, "turn", "turns")} ▸` : "";
  const name = row.beginsHere ? nameOf(exchange) : exchange.kind === "turn" ? "" : exchange.kind;
  if (!isWide) return <span className="label">{run || name !== "" ? <b>{run || visible(name)}</b> : clock(exchange.at)}</span>;
  return (
    <span className="label">
      <time>{clock(exchange.at)}</time>
      {run !== "" && <b>{run}</b>}
      {name !== "" && <b>{visible(name)}</b>}
      {exchange.status !== "complete" && <span className="error">{visible(exchange.status)}</span>}
      {exchange.model && <span>{visible(modelName(exchange.model))}</span>}
      {exchange.cost_usd !== null && <span title={`$${exact(exchange.cost_usd)}`}>{dollars(exchange.cost_usd)}</span>}
      <Told exchange={exchange} saidIn={saidIn} />
    </span>
  );
}

/** What was asked, else what was answered; a call beside the conversation says why it is there. */
function Told({ exchange, saidIn }: { exchange: Exchange } & Pick<Shown, "saidIn">) {
  const { asked, answered } = saidIn(exchange.id);
  const said = firstLine(asked, LABEL_CHARS) || firstLine(answered, LABEL_CHARS);
  return <span className="quiet reason">{visible(said || exchange.link.reason)}</span>;
}

function Legend({ drawn, exchanges, merges }: { drawn: Drawn; exchanges: number; merges: number }) {
  const strands = new Set(drawn.rows.map((row) => row.strand)).size;
  return (
    <p className="graph-legend under">
      <span>{counted(exchanges, "exchange", "exchanges")}</span>
      <span>{counted(strands, "strand", "strands")}</span>
      {merges > 0 && <span>{counted(merges, "quotation", "quotations")} between them, dotted</span>}
      {exchanges > NODES_MAX && <span>runs of turns are folded; a click opens one</span>}
      <span className="wide-only">◆ compaction · dashed: rewritten by the client · + and − zoom</span>
    </p>
  );
}

interface Hovered {
  row: Row;
  place: { left: number; top?: number; bottom?: number };
}

const SAID_CHARS = 160;
/** Room that the card needs; without it, it grows upwards. */
const CARD_PX = 190;
const CARD_WIDE_PX = 388;

/** Beside the pane, so that it hides no strand; in the graph below the row, behind the lanes. */
function placeBy({ top, bottom, left, right }: DOMRect, isWide: boolean, lanesPx: number): Hovered["place"] {
  const at = isWide ? left + lanesPx + 24 : right + 6;
  const isLow = bottom + CARD_PX > window.innerHeight;
  const [below, above] = isWide ? [bottom + 4, window.innerHeight - top + 4] : [top, window.innerHeight - bottom];
  return { left: Math.max(8, Math.min(at, window.innerWidth - CARD_WIDE_PX)), ...(isLow ? { bottom: above } : { top: below }) };
}

/** The exchange under the pointer, or the focus, in a few lines. */
function Card({ of: { row, place }, saidIn }: { of: Hovered } & Pick<Shown, "saidIn">) {
  const { exchange } = row;
  const { asked, answered } = saidIn(exchange.id);
  const { usage } = exchange;
  const sent = (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
  return (
    <div className="card" role="tooltip" style={place}>
      <p className="under">
        <b>{visible(nameOf(exchange)) || exchange.kind}</b>
        <span>{moment(exchange.at)}</span>
        {exchange.status !== "complete" && <span className="error">{visible(exchange.status)}</span>}
      </p>
      <p className="under">
        {exchange.model && <span>{visible(modelName(exchange.model))}</span>}
        {sent > 0 && (
          <span>
            {short(sent)}→{short(usage.output_tokens ?? 0)}
          </span>
        )}
        {exchange.cost_usd !== null && <span>{dollars(exchange.cost_usd)}</span>}
        {exchange.latency_ms !== null && <span>{duration(exchange.latency_ms)}</span>}
        {exchange.reuse === "hit" && <span className="reused">reused</span>}
      </p>
      {asked !== "" && (
        <p>
          <span className="quiet">You</span> {visible(firstLine(asked, SAID_CHARS))}
        </p>
      )}
      {answered !== "" && (
        <p>
          <span className="quiet">Assistant</span> {visible(firstLine(answered, SAID_CHARS))}
        </p>
      )}
      {row.folded.length > 0 && <p className="quiet">and {counted(row.folded.length, "more turn", "more turns")} that follow; a click shows them</p>}
      <p className="quiet">It {visible(exchange.link.reason)}.</p>
    </div>
  );
}
