import { useEffect, useRef, useState, type KeyboardEvent, type MouseEvent, type ReactNode } from "react";
import type { Conversation } from "../api";
import { go, to } from "../router";
import { copyText } from "./Copy";

interface Spot {
  x: number;
  y: number;
}

/** A row of the list, with a menu of its own on a right click or the menu key. */
export function ConversationMenu({ conversation, children }: { conversation: Conversation; children: ReactNode }) {
  const [spot, setSpot] = useState<Spot | null>(null);
  const open = (event: MouseEvent) => {
    event.preventDefault();
    setSpot({ x: event.clientX, y: event.clientY });
  };
  return (
    <div className="conversation-row" onContextMenu={open}>
      {children}
      {spot && <Menu conversation={conversation} spot={spot} onClose={() => setSpot(null)} />}
    </div>
  );
}

function Menu({ conversation, spot, onClose }: { conversation: Conversation; spot: Spot; onClose: () => void }) {
  const menu = useRef<HTMLDivElement>(null);
  const { friendly_id: id, conversation_id } = conversation;
  const path = to.conversation(id ?? conversation_id);
  const close = useRef(onClose);
  useEffect(() => {
    close.current = onClose;
  });
  useEffect(() => {
    const before = document.activeElement;
    menu.current?.showPopover();
    menu.current?.querySelector<HTMLElement>("[role=menuitem]:not(:disabled)")?.focus();
    const outside = (event: PointerEvent) => {
      if (!menu.current?.contains(event.target as Node)) close.current();
    };
    document.addEventListener("pointerdown", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const step = (event: KeyboardEvent) => {
    if (event.key === "Escape" || event.key === "Tab") return onClose();
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const items = [...(menu.current?.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    items[(at + by + items.length) % items.length]?.focus();
  };
  const act = (does: () => void) => () => {
    does();
    onClose();
  };
  return (
    <div
      ref={menu}
      // Not "auto": the end of the click that opened it would close it again.
      popover="manual"
      role="menu"
      aria-label="Conversation"
      className="menu"
      style={{ left: Math.min(spot.x, window.innerWidth - 260), top: Math.min(spot.y, window.innerHeight - 150) }}
      onKeyDown={step}
    >
      <button type="button" role="menuitem" disabled={id === null} onClick={act(() => void copyText(id ?? ""))}>
        Copy conversation reference
      </button>
      <hr />
      <button type="button" role="menuitem" onClick={act(() => go(path))}>
        Open
      </button>
      <button type="button" role="menuitem" onClick={act(() => window.open(path, "_blank", "noopener"))}>
        Open in a new tab
      </button>
      <button type="button" role="menuitem" onClick={act(() => void copyText(new URL(path, window.location.href).href))}>
        Copy link
      </button>
    </div>
  );
}
