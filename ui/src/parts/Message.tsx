import { memo } from "react";
import type { ContextChange, Exchange } from "../api";
import { clock, dollars, duration, exact, modelName, moment, short } from "../pure/format";
import { partsOf, type Operation, type Step } from "../pure/session";
import { toolOf } from "../pure/tools";
import { visible } from "../pure/visible";
import { follow } from "../router";
import { Badge } from "./Badge";
import { Icon } from "./Icon";
import { Said } from "./Said";

interface Shown {
  step: Step;
  operations: Operation[];
  exchange: Exchange | undefined;
  /** The exchange that brought it, or whose answer it is. */
  broughtBy: string | null;
  /** What became another with it around the conversation. */
  changes: ContextChange[];
  onChange: (change: ContextChange) => void;
  /** The address that compares it with the branch before it. */
  compare: string | null;
  onSwitch: (by: 1 | -1) => void;
  onTools: () => void;
  onRaw: () => void;
}

export const Message = memo(function Message(props: Shown) {
  const { step, operations, exchange, broughtBy, changes, onChange, compare, onSwitch, onTools, onRaw } = props;
  const { message } = step;
  const isUser = message.type === "user";
  const parts = partsOf(message);
  return (
    <>
      {step.mark && <Mark mark={step.mark} />}
      {changes.map((change) => (
        <p key={change.what} className="mark">
          {toldChange(change)}{" "}
          <button type="button" className="fold" onClick={() => onChange(change)}>
            diff
          </button>
        </p>
      ))}
      <article className={`message ${message.type}`}>
        <header>
          <h2>{isUser ? "You" : "Assistant"}</h2>
          <Badge names={step.names} />
          {step.siblings.length > 1 && <Switcher step={step} onSwitch={onSwitch} />}
          {compare !== null && (
            <a href={compare} onClick={follow}>
              compare
            </a>
          )}
          <span className="spring" />
          {!isUser && <Facts step={step} exchange={exchange} onRaw={onRaw} />}
          {message.timestamp && (
            <time dateTime={message.timestamp} title={moment(message.timestamp)}>
              {clock(message.timestamp)}
            </time>
          )}
        </header>
        {parts.map((part, at) => (
          <Said key={at} part={part} behind={parts.slice(at + 1)} id={`${message.uuid}/${at}`} isUser={isUser} exchange={broughtBy} />
        ))}
        {parts.length === 0 && operations.length === 0 && <p className="quiet">(nothing was said)</p>}
        {operations.length > 0 && <ToolLine operations={operations} onTools={onTools} />}
      </article>
    </>
  );
});

/** `system prompt changed: +312 tokens`, `tools changed: +Bash −Write`. */
function toldChange(change: ContextChange): string {
  const more = change.tokens_after - change.tokens_before;
  const tokens = `${more >= 0 ? "+" : "−"}${short(Math.abs(more))} tokens`;
  if (change.what !== "tools") return `system prompt changed: ${tokens}`;
  const names = [...(change.tools_added ?? []).map((name) => `+${name}`), ...(change.tools_removed ?? []).map((name) => `−${name}`)];
  return `tools changed: ${visible(names.slice(0, 6).join(" "))}${names.length > 6 ? " …" : ""} ${tokens}`;
}

function Mark({ mark }: { mark: "compacted" | "restarted" }) {
  return (
    <p className="mark">{mark === "compacted" ? "◆ compacted: the conversation goes on from its summary" : "the client started over here"}</p>
  );
}

function Switcher({ step, onSwitch }: { step: Step; onSwitch: (by: 1 | -1) => void }) {
  const at = step.siblings.indexOf(step.message.uuid) + 1;
  return (
    <span className="switcher" role="group" aria-label="Branches here">
      <button type="button" aria-label="Previous branch" disabled={at <= 1} onClick={() => onSwitch(-1)}>
        ‹
      </button>
      <span>
        {at} of {step.siblings.length}
      </span>
      <button type="button" aria-label="Next branch" disabled={at >= step.siblings.length} onClick={() => onSwitch(1)}>
        ›
      </button>
    </span>
  );
}

/** Model, tokens, cost and time of a turn; a click opens the exchange. */
function Facts({ step, exchange, onRaw }: { step: Step; exchange: Exchange | undefined; onRaw: () => void }) {
  const { message } = step;
  const usage = message.usage;
  if (message.exchange_id === null) return null;
  const sent = (usage?.input_tokens ?? 0) + (usage?.cache_read_tokens ?? 0) + (usage?.cache_write_tokens ?? 0);
  const cached = usage?.cache_read_tokens ?? 0;
  const told = usage
    ? `${exact(sent)} tokens in (${exact(cached)} from the cache, ${exact(usage.cache_write_tokens ?? 0)} written to it), ${exact(usage.output_tokens ?? 0)} out`
    : "no usage was told";
  return (
    <button type="button" className="facts" title={`${told}. Open the exchange (o)`} onClick={onRaw}>
      {exchange?.reuse === "hit" && <span className="reused">reused</span>}
      {exchange && exchange.status !== "complete" && <span className={exchange.status === "pending" ? "quiet" : "error"}>{exchange.status}</span>}
      <span>{message.model ? visible(modelName(message.model)) : "exchange"}</span>
      {usage && (
        <span>
          {short(sent)}→{short(usage.output_tokens ?? 0)}
        </span>
      )}
      {cached > 0 && sent > 0 && <span>{Math.round((100 * cached) / sent)} % cached</span>}
      {message.cost_usd !== null && <span title={`$${exact(message.cost_usd)}`}>{dollars(message.cost_usd)}</span>}
      {exchange?.latency_ms != null && <span>{duration(exchange.latency_ms)}</span>}
    </button>
  );
}

/** Tool operations are one quiet line that opens them at their place. */
function ToolLine({ operations, onTools }: { operations: Operation[]; onTools: () => void }) {
  const failed = operations.filter((operation) => operation.isError).length;
  const kinds = new Map(operations.map(({ call }) => [visible(call.name), toolOf(call).is]));
  const names = [...kinds].slice(0, 5);
  return (
    <button type="button" className="tool-line" onClick={onTools}>
      {operations.length === 1 ? "1 tool" : `${operations.length} tools`} ▸{" "}
      {names.map(([name, kind]) => (
        <span key={name} className="tool-name">
          <Icon of={kind} /> {name}
        </span>
      ))}
      {kinds.size > names.length && " …"}
      {failed > 0 && <span className="error"> {failed} failed</span>}
    </button>
  );
}
