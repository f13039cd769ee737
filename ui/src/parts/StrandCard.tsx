import type { Exchange } from "../api";
import { counted, dollars, duration, modelName, moment, short, statusInWords } from "../pure/format";
import type { Row } from "../pure/lanes";
import { firstLine, visible } from "../pure/visible";

export interface Hovered {
  row: Row;
  place: { left: number; top?: number; bottom?: number };
}

/** What was said in an exchange: the prompt and the answer. */
export type SaidIn = (exchange: string) => { asked: string; answered: string };

const SAID_CHARS = 160;
/** Room that the card needs; without it, it grows upwards. */
const CARD_PX = 190;
const CARD_WIDE_PX = 388;

/** Beside the pane, so that it hides no strand; in the graph below the row, behind the lanes. */
export function placeBy({ top, bottom, left, right }: DOMRect, isWide: boolean, lanesPx: number): Hovered["place"] {
  const at = isWide ? left + lanesPx + 24 : right + 6;
  const isLow = bottom + CARD_PX > window.innerHeight;
  const [below, above] = isWide ? [bottom + 4, window.innerHeight - top + 4] : [top, window.innerHeight - bottom];
  return { left: Math.max(8, Math.min(at, window.innerWidth - CARD_WIDE_PX)), ...(isLow ? { bottom: above } : { top: below }) };
}

/** A time in a branch's name says less than what kind of branch it is. */
export function nameOf(exchange: Exchange): string {
  const kind = exchange.branch_kind;
  return exchange.agent.name ?? (kind === "edit" || kind === "regeneration" || kind === "compact" ? kind : (exchange.branch_id ?? ""));
}

/** The exchange under the pointer, or the focus, in a few lines. */
export function StrandCard({ of: { row, place }, saidIn }: { of: Hovered; saidIn: SaidIn }) {
  const { exchange } = row;
  const { asked, answered } = saidIn(exchange.id);
  const { usage } = exchange;
  const sent = (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
  return (
    <div className="card" role="tooltip" style={place}>
      <p className="under">
        <b>{visible(nameOf(exchange)) || exchange.kind}</b>
        <span>{moment(exchange.at)}</span>
        {exchange.status !== "complete" && <span className="error">{statusInWords(exchange.status)}</span>}
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
