import { expect, test } from "vitest";
import type { Exchange } from "../api";
import { lanes } from "./lanes";
import { sizeOf, strokes, widthOf } from "./strokes";

function exchange(id: string, parent: string | null, branch: string, more: Partial<Exchange> = {}): Exchange {
  const made = { id, parent_exchange_id: parent, branch_key: branch, kind: "turn", status: "complete", rewritten: false, link: { method: "prefix" }, ...more };
  return made as unknown as Exchange;
}

/** Every seventh leaves its parent: some seven hundred branches, up to ninety side by side. */
const tree = lanes(
  Array.from({ length: 5_000 }, (_, at) => exchange(`e${at}`, at === 0 ? null : `e${at % 7 === 0 ? at / 7 : at - 1}`, `b${Math.floor(at / 7)}`)),
);

test("a part of a wide tree is one path for each colour, for lines and for nodes", () => {
  const drawn = strokes(tree, 1_024, 1_056, sizeOf(tree.lanes, 672, 26));
  expect(tree.lanes).toBeGreaterThan(48);
  expect(drawn.length).toBeLessThanOrEqual(16);
  const circles = drawn.filter(({ names }) => names.includes("node")).map(({ path }) => path.split("M").length - 1);
  expect(circles.reduce((sum, count) => sum + count, 0)).toBe(32);
});

test("lines are cut to the part that is drawn, and go through from one part to the next", () => {
  const long = lanes([exchange("1", null, "main"), exchange("2", "1", "main"), exchange("3", "2", "main"), exchange("4", "3", "main")]);
  const lines = (first: number, end: number) => strokes(long, first, end, sizeOf(1, 672, 20)).find(({ names }) => names.endsWith("line"))?.path;
  expect(lines(0, 2)).toBe("M7 10V40");
  expect(lines(2, 4)).toBe("M7 -12V30");
  expect(lines(0, 4)).toBe("M7 10V70");
});

test("what stands for several turns, or for none, has a shape of its own", () => {
  const all = [exchange("1", null, "main"), exchange("2", "1", "main", { kind: "auxiliary" }), exchange("3", "1", "main", { branch_kind: "compact", link: { method: "summary", confidence: 1, reason: "" } })];
  const names = strokes(lanes(all), 0, 3, sizeOf(1, 672, 20)).map((stroke) => stroke.names);
  expect(names).toEqual(["strand-0 line", "strand-0 node turn", "strand-0 node auxiliary", "strand-0 node compaction"]);
});

test("lanes move together until all have room, and no further", () => {
  expect(widthOf(3, sizeOf(3, 672, 26))).toBe(3 * 14 + 14);
  expect(widthOf(90, sizeOf(90, 672, 26))).toBeLessThanOrEqual(672 + 14);
  expect(sizeOf(90, 672, 26).lanesMax).toBeGreaterThanOrEqual(90);
  expect(sizeOf(9_000, 672, 26)).toMatchObject({ lanePx: 4, lanesMax: 168 });
});
