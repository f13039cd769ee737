import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { ContextChange, Exchange } from "../api";
import type { Session, Step } from "../pure/session";
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
  /** Where the reader was is kept under this name while the tab lives. */
  storageKey: string;
  hasTarget: boolean;
  onSelect: (at: number) => void;
  onSwitch: (at: number, by: 1 | -1) => void;
  onTools: (uuid: string) => void;
  onRaw: (at: number) => void;
}

const NO_CHANGES: ContextChange[] = [];
const ESTIMATE_PX = 120;
/** So near to the end counts as being there. */
const END_PX = 80;

/** The messages of a path. Only those near the screen are in the page, however many there are. */
export function MessageList(props: List) {
  const { path, session, exchanges, changes, onChange, compareAt, current, storageKey, hasTarget, onSelect, onSwitch, onTools, onRaw } = props;
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

  const focused = path[current]?.message.uuid;
  const shownBefore = useRef(false);
  useLayoutEffect(() => {
    if (!shownBefore.current && !hasTarget) return;
    list.scrollToIndex(current, { align: "auto" });
  }, [list, current, focused, hasTarget]);

  // A reload comes back to where the reader was, unless the address says where to go.
  useEffect(() => {
    shownBefore.current = true;
    const kept = Number(window.sessionStorage.getItem(`ropewalk.scroll ${storageKey}`));
    if (!hasTarget && kept > 0) list.scrollToOffset(kept);
    // Only once: afterwards the reader scrolls.
  }, []);

  // What comes in is followed by who reads at the end, and counted for who has scrolled up.
  const length = useRef(path.length);
  useEffect(() => {
    const added = path.length - length.current;
    length.current = path.length;
    if (added <= 0) return;
    if (isAtEnd.current) list.scrollToIndex(path.length - 1, { align: "end" });
    else setUnseen((before) => before + added);
  }, [list, path.length]);

  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < END_PX;
    if (isAtEnd.current) setUnseen(0);
    window.sessionStorage.setItem(`ropewalk.scroll ${storageKey}`, String(Math.round(element.scrollTop)));
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
