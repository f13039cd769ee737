import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import type { Exchange } from "../api";
import { clock, dollars, modelName, moment } from "../pure/format";
import { lanes, type Row } from "../pure/lanes";
import { visible } from "../pure/visible";

const ROW_PX = 26;
const LANE_PX = 14;
/** More lanes than this are drawn on top of each other at the right. */
const LANES_MAX = 24;
const COLOURS = 8;

interface Shown {
  exchanges: Exchange[];
  currentExchange: string | null;
  isWide: boolean;
  onPick: (exchange: Exchange) => void;
}

/** Exchanges as strands, oldest first: one lane for each branch, a colour for each strand. */
export function Strands({ exchanges, currentExchange, isWide, onPick }: Shown) {
  const drawn = useMemo(() => lanes(exchanges), [exchanges]);
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: drawn.rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 20,
  });
  const current = drawn.rows.findIndex((row) => row.exchange.id === currentExchange);
  useEffect(() => {
    if (current >= 0) list.scrollToIndex(current, { align: "auto" });
  }, [list, current]);
  const width = (Math.min(drawn.lanes, LANES_MAX) + 1) * LANE_PX;
  return (
    <div className={isWide ? "strands strands-wide" : "strands"} ref={box} tabIndex={0} role="region" aria-label="Strands">
      <ol style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map((item) => {
          const row = drawn.rows[item.index];
          if (!row) return null;
          return (
            <li key={item.key} style={{ transform: `translateY(${item.start}px)` }} className={item.index === current ? "current" : ""}>
              <button type="button" title={told(row)} onClick={() => onPick(row.exchange)}>
                <Cell row={row} width={width} isLast={item.index === drawn.rows.length - 1} />
                <Label row={row} isWide={isWide} />
              </button>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function told(row: Row): string {
  const { exchange } = row;
  return visible(`${moment(exchange.at)} ${exchange.branch_id ?? ""} ${exchange.kind}, ${exchange.status}: ${exchange.link.reason}`);
}

function x(lane: number): number {
  return (Math.min(lane, LANES_MAX - 1) + 1) * LANE_PX - LANE_PX / 2;
}

function Cell({ row, width, isLast }: { row: Row; width: number; isLast: boolean }) {
  const middle = ROW_PX / 2;
  return (
    <svg width={width} height={ROW_PX} aria-hidden="true">
      {row.edges.map((edge, at) => {
        const isOwn = edge.toLane === row.lane;
        const isTurn = edge.fromLane !== edge.toLane;
        // A branch bends out of its parent's lane; a lane that passes goes straight through.
        const line = isTurn
          ? `M${x(edge.fromLane)} 0C${x(edge.fromLane)} ${middle} ${x(edge.toLane)} 0 ${x(edge.toLane)} ${middle}`
          : `M${x(edge.fromLane)} 0V${isOwn && (row.endsHere || isLast) ? middle : ROW_PX}`;
        return <path key={at} d={line} className={`strand-${edge.strand % COLOURS} ${edge.isDashed ? "dashed" : ""}`} />;
      })}
      {row.beginsHere && !row.endsHere && !isLast && <path d={`M${x(row.lane)} ${middle}V${ROW_PX}`} className={`strand-${row.strand % COLOURS}`} />}
      {row.shape === "compaction" ? (
        <path d={`M${x(row.lane)} ${middle - 5}l5 5l-5 5l-5 -5z`} className={`node strand-${row.strand % COLOURS}`} />
      ) : (
        <circle cx={x(row.lane)} cy={middle} r={row.shape === "turn" ? 4 : 2.5} className={`node strand-${row.strand % COLOURS} ${row.shape}`} />
      )}
    </svg>
  );
}

/** A time in a branch's name says less than what kind of branch it is. */
function nameOf(exchange: Exchange): string {
  const kind = exchange.branch_kind;
  return exchange.agent.name ?? (kind === "edit" || kind === "regeneration" || kind === "compact" ? kind : (exchange.branch_id ?? ""));
}

function Label({ row, isWide }: { row: Row; isWide: boolean }) {
  const { exchange } = row;
  const name = row.beginsHere ? nameOf(exchange) : exchange.kind === "turn" ? "" : exchange.kind;
  if (!isWide) return <span className="label">{visible(name) || clock(exchange.at)}</span>;
  return (
    <span className="label">
      <time>{clock(exchange.at)}</time>
      {name !== "" && <b>{visible(name)}</b>}
      {exchange.status !== "complete" && <span className="error">{visible(exchange.status)}</span>}
      {exchange.model && <span>{visible(modelName(exchange.model))}</span>}
      {exchange.cost_usd !== null && <span>{dollars(exchange.cost_usd)}</span>}
      <span className="quiet">{visible(exchange.link.reason)}</span>
    </span>
  );
}
