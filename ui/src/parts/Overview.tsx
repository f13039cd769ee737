import { useEffect, useRef, type PointerEvent, type RefObject } from "react";
import type { Drawn } from "../pure/lanes";
import { COLOURS } from "../pure/strokes";

const WIDTH = 72;

interface Over {
  drawn: Drawn;
  box: RefObject<HTMLDivElement | null>;
  height: number;
}

/** All of a graph beside the part that is shown; a click or a drag goes there. The list itself is what keys and readers use. */
export function Overview({ drawn, box, height }: Over) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  // All of it is drawn when it became another, and never because somebody scrolls.
  useEffect(() => {
    const { current: area } = canvas;
    if (!area) return;
    const draw = () => paint(area, drawn);
    const resized = new ResizeObserver(draw);
    resized.observe(area);
    // Another theme has other colours.
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
    };
  }, [drawn]);
  useEffect(() => {
    const [scrolled, around] = [box.current, frame.current];
    if (!scrolled || !around) return;
    let share = 0;
    const follow = () => {
      around.style.transform = `translateY(${scrolled.scrollTop * share}px)`;
    };
    const resized = new ResizeObserver(() => {
      const tall = scrolled.clientHeight;
      share = tall / Math.max(drawn.rows.length * height, 1);
      around.style.height = `${Math.max(6, tall * share)}px`;
      follow();
    });
    resized.observe(scrolled);
    // Before the list puts other rows into the page, which would have to be measured to know where it is.
    scrolled.addEventListener("scroll", follow, { passive: true, capture: true });
    return () => {
      scrolled.removeEventListener("scroll", follow, { capture: true });
      resized.disconnect();
    };
  }, [drawn, box, height]);
  const jump = (event: PointerEvent<HTMLElement>) => {
    if (event.buttons !== 1 || !box.current) return;
    const { top, height: all } = event.currentTarget.getBoundingClientRect();
    const { scrollHeight, clientHeight } = box.current;
    box.current.scrollTop = ((event.clientY - top) / all) * scrollHeight - clientHeight / 2;
  };
  return (
    <div className="overview wide-only" aria-hidden="true" onPointerDown={jump} onPointerMove={jump}>
      <canvas ref={canvas} />
      <div className="frame" ref={frame} />
    </div>
  );
}

function paint(area: HTMLCanvasElement, drawn: Drawn): void {
  const scale = window.devicePixelRatio || 1;
  const tall = area.clientHeight;
  area.width = WIDTH * scale;
  area.height = tall * scale;
  const on = area.getContext("2d");
  if (!on || tall === 0) return;
  const style = getComputedStyle(document.documentElement);
  const colours = Array.from({ length: COLOURS }, (_, at) => style.getPropertyValue(`--s${at}`).trim());
  on.scale(scale, scale);
  const [step, lane] = [tall / Math.max(drawn.rows.length, 1), Math.min(8, (WIDTH - 8) / Math.max(drawn.lanes, 1))];
  const node = Math.max(1, Math.min(step * 0.6, 4));
  const middle = (of: number) => 6 + of * lane;
  for (const line of drawn.lines) {
    if (line.look === "wire") continue;
    on.fillStyle = colours[line.strand % COLOURS] ?? "";
    on.fillRect(middle(line.lane) - 0.5, line.from * step, 1, Math.max(1, (line.to - line.from) * step));
  }
  drawn.rows.forEach((row, at) => {
    on.fillStyle = colours[row.strand % COLOURS] ?? "";
    on.fillRect(middle(row.lane) - node / 2, (at + 0.5) * step - node / 2, Math.max(2, node), node);
  });
}
