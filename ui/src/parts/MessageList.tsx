import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { ContextChange, Exchange } from "../api";
import type { Session, Step } from "../pure/session";
import { remember, remembered } from "../remembered";
import type { Sights } from "../sight";
import { Message } from "./Message";

interface List {
  path: Step[];
  session: Session;
  exchanges: Map<string, Exchange>;
  /** Changes around the conversation, by the exchange that brought them. */
  changes: Map<string, ContextChange[]>;
  onChange: (change: ContextChange) => void;
  compareAt: (at: number) => string | null;
  current: number;
  sights: Sights;
  /** Where the reader was is kept under this name while the tab lives. */
  storageKey: string;
  hasTarget: boolean;
  /** Everything that there was at first is there. */
  isSettled: boolean;
  onSelect: (at: number) => void;
  onSwitch: (at: number, by: 1 | -1) => void;
  onTools: (uuid: string) => void;
  onRaw: (at: number) => void;
}

const NO_CHANGES: ContextChange[] = [];
const ESTIMATE_PX = 120;
/** So near to the end counts as being there. */
const END_PX = 80;

/** Until rows that were only estimated are measured. */
const SETTLE_MS = 120;

/** The first message on the screen, and how much of it is above. */
interface Place {
  uuid: string;
  below: number;
}

function placeOf(kept: string | null): Place | null {
  try {
    const { uuid, below } = JSON.parse(kept ?? "null") as Partial<Place>;
    return typeof uuid === "string" && typeof below === "number" ? { uuid, below } : null;
  } catch {
    return null;
  }
}

/** The address that was loaded again, rather than come to by a link. */
const reloaded = (() => {
  const [entry] = performance.getEntriesByType("navigation");
  return entry instanceof PerformanceNavigationTiming && entry.type === "reload" ? window.location.href : null;
})();

/** The messages of a path. Only those near the screen are in the page, however many there are. */
export function MessageList(props: List) {
  const { path, session, exchanges, changes, onChange, compareAt, current, sights, storageKey, hasTarget, isSettled, onSelect, onSwitch, onTools, onRaw } = props;
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(false);
  const [unseen, setUnseen] = useState(0);
  const list = useVirtualizer({
    count: path.length,
    getScrollElement: () => box.current,
    estimateSize: () => ESTIMATE_PX,
    overscan: 6,
    getItemKey: (at) => path[at]?.message.uuid ?? at,
  });

  const range = list.range;
  useEffect(() => {
    if (range) sights.see(range.startIndex, range.endIndex);
  }, [sights, range]);

  const [isBack] = useState(() => reloaded === window.location.href && remembered(`scroll ${storageKey}`) !== null);
  const focused = path[current]?.message.uuid;
  const shownBefore = useRef(false);
  useLayoutEffect(() => {
    if (!shownBefore.current && (!hasTarget || isBack)) return;
    list.scrollToIndex(current, { align: "auto" });
  }, [list, current, focused, hasTarget, isBack]);

  // A reload comes back to where the reader was; a link leads to where it says.
  const waiting = useRef<Place | null>(null);
  useEffect(() => {
    shownBefore.current = true;
    if (!hasTarget || isBack) waiting.current = placeOf(remembered(`scroll ${storageKey}`));
    // Only once: afterwards the reader scrolls.
  }, []);
  // The message may come with a later page, and is as far down as those above it are high, which is known when they were drawn.
  const wanted = waiting.current === null ? -1 : path.findIndex((step) => step.message.uuid === waiting.current?.uuid);
  useEffect(() => {
    const { current: place } = waiting;
    if (!place || wanted < 0) return;
    list.scrollToIndex(wanted, { align: "start" });
    const settled = window.setTimeout(() => {
      waiting.current = null;
      if (box.current) box.current.scrollTop += place.below;
    }, SETTLE_MS);
    return () => window.clearTimeout(settled);
  }, [list, wanted]);

  // What comes in is followed by who reads at the end, and counted for who has scrolled up.
  const length = useRef(path.length);
  const wasSettled = useRef(false);
  useEffect(() => {
    const added = path.length - length.current;
    length.current = path.length;
    const isNews = wasSettled.current;
    wasSettled.current = isSettled;
    if (added <= 0 || !isNews) return;
    if (isAtEnd.current) list.scrollToIndex(path.length - 1, { align: "end" });
    else setUnseen((before) => before + added);
  }, [list, path.length, isSettled]);

  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < END_PX;
    if (isAtEnd.current) setUnseen(0);
    if (waiting.current) return;
    const first = list.getVirtualItemForOffset(element.scrollTop);
    const uuid = first && path[first.index]?.message.uuid;
    if (first && uuid) remember(`scroll ${storageKey}`, JSON.stringify({ uuid, below: Math.round(element.scrollTop - first.start) }));
  };

  return (
    <div className="messages-box">
      <div className="messages" ref={box} onScroll={onScroll} tabIndex={0} role="region" aria-label="Messages">
        <ol style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => {
            const step = path[item.index];
            if (!step) return null;
            const { exchange_id, uuid } = step.message;
            return (
              <li
                key={item.key}
                ref={list.measureElement}
                data-index={item.index}
                data-uuid={uuid}
                aria-setsize={path.length}
                aria-posinset={item.index + 1}
                aria-current={item.index === current ? "true" : undefined}
                style={{ transform: `translateY(${item.start}px)` }}
                onClick={(event) => {
                  if (!(event.target as Element).closest("button, a") && !window.getSelection()?.toString()) onSelect(item.index);
                }}
              >
                <Message
                  step={step}
                  operations={session.operations(step.message)}
                  exchange={exchange_id === null ? undefined : exchanges.get(exchange_id)}
                  broughtBy={exchange_id ?? path[item.index + 1]?.message.exchange_id ?? null}
                  changes={(exchange_id === null ? undefined : changes.get(exchange_id)) ?? NO_CHANGES}
                  onChange={onChange}
                  compare={compareAt(item.index)}
                  onSwitch={(by) => onSwitch(item.index, by)}
                  onTools={() => onTools(uuid)}
                  onRaw={() => onRaw(item.index)}
                />
              </li>
            );
          })}
        </ol>
      </div>
      {unseen > 0 && (
        <button type="button" className="unseen" onClick={() => list.scrollToIndex(path.length - 1, { align: "end" })}>
          {unseen} new ↓
        </button>
      )}
    </div>
  );
}
