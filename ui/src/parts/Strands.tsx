import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useImperativeHandle, useMemo, useRef, useState, type Ref, type SyntheticEvent } from "react";
import type { Exchange, Merge } from "../api";
import { clock, counted, dollars, exact, modelName, statusInWords } from "../pure/format";
import { lanes, NODES_MAX, type Drawn, type Row } from "../pure/lanes";
import { sizeOf, strokes, widthOf, type Size } from "../pure/strokes";
import { firstLine, visible } from "../pure/visible";
import { useSight, type Sights } from "../sight";
import { keep, kept } from "../theme";
import { Overview } from "./Overview";
import { nameOf, placeBy, StrandCard, type Hovered, type SaidIn } from "./StrandCard";

/** Heights of a row, from an overview to a list that is read. */
const ROWS_PX = [8, 14, 20, 26, 34];
const USUAL = 3;
/** Below this there is no room for words. */
const WORDS_PX = 18;
/** Room for lanes beside the words: in the graph, at most this share of the window; in the pane, half of it. */
const GRAPH_LANES_PX = 672;
const GRAPH_LANES_SHARE = 0.5;
const PANE_LANES_PX = 112;
const LABEL_CHARS = 120;
const ZOOM_KEY = "ropewalk.zoom";
/** Rows whose lanes are one picture: while a reader scrolls, one is drawn for every so many rows, and none again. */
const PICTURE_ROWS = 32;

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
  saidIn: SaidIn;
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
  const current = (currentExchange === null ? undefined : drawn.rowOf.get(currentExchange)) ?? -1;
  const [cursor, setCursor] = useState(current);
  useEffect(() => setCursor(current), [current]);
  const list = useVirtualizer({
    count: drawn.rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 12,
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
  const roomPx = isWide ? Math.min(GRAPH_LANES_PX, window.innerWidth * GRAPH_LANES_SHARE) : PANE_LANES_PX;
  const size = useMemo(() => sizeOf(drawn.lanes, roomPx, height), [drawn.lanes, roomPx, height]);
  const width = widthOf(drawn.lanes, size);
  const rowAt = (button: Element) => drawn.rows[Number((button.parentElement as HTMLElement).dataset.index)];
  const show = (button: Element | null) => {
    const row = button && rowAt(button);
    if (row && row !== hovered?.row) setHovered({ row, place: placeBy(button.getBoundingClientRect(), isWide, width) });
  };
  const items = list.getVirtualItems();
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
        <ol
          style={{ height: list.getTotalSize() }}
          onClick={(event) => {
            const button = buttonOf(event);
            const row = button && rowAt(button);
            if (row) pick(row);
          }}
          onPointerOver={(event) => show(buttonOf(event))}
          onFocus={(event) => event.target.matches(":focus-visible") && show(buttonOf(event))}
          onBlur={() => setHovered(null)}
        >
          {items.map(({ index, start }) => {
            const row = drawn.rows[index];
            return (
              row && <StrandRow key={index} row={row} index={index} start={start} height={height} indent={width} isCurrent={index === cursor} isWide={isWide} saidIn={saidIn} />
            );
          })}
        </ol>
        {picturesOf(items[0]?.index, items.at(-1)?.index).map((number) => (
          <Picture key={number} drawn={drawn} first={number * PICTURE_ROWS} size={size} width={width} />
        ))}
        {!isWide && <InSight drawn={drawn} height={height} sights={sights} exchangesOf={exchangesOf} />}
      </div>
      {isWide && drawn.rows.length * height > 600 && <Overview drawn={drawn} box={box} height={height} />}
      {hovered && <StrandCard of={hovered} saidIn={saidIn} />}
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

/** The list hears what happens to its rows, so that they are the same whatever was drawn since. */
function buttonOf(event: SyntheticEvent): Element | null {
  return (event.target as Element).closest("button");
}

/** The pictures that rows are on, by their numbers. */
function picturesOf(first = 0, last = -1): number[] {
  const [from, to] = [Math.floor(first / PICTURE_ROWS), Math.floor(last / PICTURE_ROWS)];
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
}

/** The rows whose messages are on the screen, as a bar beside them. */
function InSight({ drawn, height, sights, exchangesOf }: { drawn: Drawn; height: number } & Pick<Shown, "sights" | "exchangesOf">) {
  const { first, last } = useSight(sights);
  const [from, to] = useMemo(() => {
    const rows = [...exchangesOf(first, last)].flatMap((exchange) => drawn.rowOf.get(exchange) ?? []);
    return [Math.min(...rows), Math.max(...rows)];
  }, [drawn, first, last, exchangesOf]);
  if (to < from) return null;
  return <div className="in-sight" aria-hidden="true" style={{ top: from * height, height: (to - from + 1) * height }} />;
}

/** Lanes and nodes of some rows, below the words of all of them. Drawn once: scrolling changes none of it. */
const Picture = memo(function Picture({ drawn, first, size, width }: { drawn: Drawn; first: number; size: Size; width: number }) {
  const end = Math.min(first + PICTURE_ROWS, drawn.rows.length);
  return (
    <svg width={width} height={(end - first) * size.rowPx} style={{ top: first * size.rowPx }} aria-hidden="true">
      {strokes(drawn, first, end, size).map(({ names, path }) => (
        <path key={names} className={names} d={path} />
      ))}
    </svg>
  );
});

interface OneRow {
  row: Row;
  index: number;
  start: number;
  height: number;
  /** Room for the lanes. */
  indent: number;
  isCurrent: boolean;
  isWide: boolean;
  saidIn: SaidIn;
}

const StrandRow = memo(function StrandRow({ row, index, start, height, indent, isCurrent, isWide, saidIn }: OneRow) {
  return (
    <li style={{ transform: `translateY(${start}px)` }} className={isCurrent ? "current" : ""} data-row={row.exchange.id} data-index={index}>
      <button type="button" style={{ height, paddingInlineStart: indent }} aria-label={height < WORDS_PX ? nameOf(row.exchange) || row.exchange.kind : undefined}>
        {height >= WORDS_PX && <Label row={row} isWide={isWide} saidIn={saidIn} />}
      </button>
    </li>
  );
});

function Label({ row, isWide, saidIn }: { row: Row; isWide: boolean; saidIn: SaidIn }) {
  const { exchange } = row;
  const run = row.folded.length > 0 ? `${counted(row.folded.length + 1, "turn", "turns")} ▸` : "";
  const name = row.beginsHere ? nameOf(exchange) : exchange.kind === "turn" ? "" : exchange.kind;
  if (!isWide) return <span className="label">{run || name !== "" ? <b>{run || visible(name)}</b> : <Asked exchange={exchange} saidIn={saidIn} />}</span>;
  return (
    <span className="label">
      <time>{clock(exchange.at)}</time>
      {run !== "" && <b>{run}</b>}
      {name !== "" && <b>{visible(name)}</b>}
      {exchange.status !== "complete" && <span className="error">{statusInWords(exchange.status)}</span>}
      {exchange.model && <span>{visible(modelName(exchange.model))}</span>}
      {exchange.cost_usd !== null && <span title={`$${exact(exchange.cost_usd)}`}>{dollars(exchange.cost_usd)}</span>}
      <Told exchange={exchange} saidIn={saidIn} />
    </span>
  );
}

/** In the pane: what somebody asked, which is what a reader looks for; a step of an answer has only its time. */
function Asked({ exchange, saidIn }: { exchange: Exchange; saidIn: SaidIn }) {
  const { asked } = saidIn(exchange.id);
  return asked === "" ? clock(exchange.at) : <span className="said">{visible(firstLine(asked, LABEL_CHARS))}</span>;
}

/** What was asked, else what was answered; a call beside the conversation says why it is there. */
function Told({ exchange, saidIn }: { exchange: Exchange; saidIn: SaidIn }) {
  const { asked, answered } = saidIn(exchange.id);
  const said = firstLine(asked, LABEL_CHARS) || firstLine(answered, LABEL_CHARS);
  return <span className="quiet reason">{visible(said || exchange.link.reason)}</span>;
}

function Legend({ drawn, exchanges, merges }: { drawn: Drawn; exchanges: number; merges: number }) {
  const strands = useMemo(() => new Set(drawn.rows.map((row) => row.strand)).size, [drawn]);
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
