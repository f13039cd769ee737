import { useEffect, useRef, type PointerEvent, type RefObject } from "react";
import type { Drawn } from "../pure/lanes";

const WIDTH = 72;
const COLOURS = 8;

interface Over {
  drawn: Drawn;
  box: RefObject<HTMLDivElement | null>;
  height: number;
}

/** All of a graph beside the part that is shown; a click or a drag goes there. The list itself is what keys and readers use. */
export function Overview({ drawn, box, height }: Over) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const [area, scrolled] = [canvas.current, box.current];
    if (!area || !scrolled) return;
    const draw = () => paint(area, scrolled, drawn, height);
    draw();
    scrolled.addEventListener("scroll", draw, { passive: true });
    const resized = new ResizeObserver(draw);
    resized.observe(area);
    // Another theme has other colours.
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      scrolled.removeEventListener("scroll", draw);
      resized.disconnect();
      themed.disconnect();
    };
  }, [drawn, box, height]);
  const jump = (event: PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons !== 1 || !box.current) return;
    const { top, height: all } = event.currentTarget.getBoundingClientRect();
    const { scrollHeight, clientHeight } = box.current;
    box.current.scrollTop = ((event.clientY - top) / all) * scrollHeight - clientHeight / 2;
  };
  return <canvas ref={canvas} className="overview wide-only" aria-hidden="true" onPointerDown={jump} onPointerMove={jump} />;
}

function paint(area: HTMLCanvasElement, scrolled: HTMLElement, drawn: Drawn, height: number): void {
  const scale = window.devicePixelRatio || 1;
  const tall = area.clientHeight;
  area.width = WIDTH * scale;
  area.height = tall * scale;
  const on = area.getContext("2d");
  if (!on || tall === 0) return;
  const style = getComputedStyle(document.documentElement);
  const colours = Array.from({ length: COLOURS }, (_, at) => style.getPropertyValue(`--s${at}`).trim());
  on.scale(scale, scale);
  const rows = drawn.rows.length;
  const [step, lane] = [tall / Math.max(rows, 1), Math.min(8, (WIDTH - 8) / Math.max(drawn.lanes, 1))];
  const node = Math.max(1, Math.min(step * 0.6, 4));
  const middle = (of: number) => 6 + of * lane;
  drawn.rows.forEach((row, at) => {
    for (const edge of row.edges) {
      if (edge.part !== "through" || edge.look === "wire") continue;
      on.fillStyle = colours[edge.strand % COLOURS] ?? "";
      on.fillRect(middle(edge.fromLane) - 0.5, at * step, 1, Math.max(step, 1));
    }
    on.fillStyle = colours[row.strand % COLOURS] ?? "";
    on.fillRect(middle(row.lane) - node / 2, (at + 0.5) * step - node / 2, Math.max(2, node), node);
  });
  const all = Math.max(rows * height, 1);
  on.strokeStyle = style.getPropertyValue("--accent").trim();
  on.strokeRect(0.5, (scrolled.scrollTop / all) * tall + 0.5, WIDTH - 1, Math.max(6, (scrolled.clientHeight / all) * tall) - 1);
}
