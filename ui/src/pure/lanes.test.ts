import { expect, test } from "vitest";
import type { Exchange, Merge } from "../api";
import { lanes, type Drawn } from "./lanes";

function exchange(id: string, parent: string | null, branch: string, more: Partial<Exchange> = {}): Exchange {
  const made = { id, parent_exchange_id: parent, branch_key: branch, kind: "turn", status: "complete", rewritten: false, link: { method: "prefix" }, ...more };
  return made as unknown as Exchange;
}

const agent: Partial<Exchange> = { branch_kind: "subtask" };
const quote = (from: string, into: string) => ({ from_exchange_id: from, into_exchange_id: into }) as Merge;
const bends = (drawn: Drawn, row: number) => drawn.bends.filter((bend) => bend.row === row).map((bend) => [bend.part, bend.fromLane, bend.toLane, bend.look]);
const lines = (drawn: Drawn, lane: number) => drawn.lines.filter((line) => line.lane === lane).map((line) => [line.look, line.from, line.to]);

test("a branch leaves its parent's lane and gives its own back", () => {
  const drawn = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "main"),
    exchange("3", "1", "edit"),
    exchange("4", "2", "main"),
    exchange("5", "4", "other"),
    exchange("6", "4", "main"),
  ]);
  expect(drawn.rows.map((row) => row.lane)).toEqual([0, 0, 1, 0, 1, 0]);
  expect(drawn.rows[2]).toMatchObject({ beginsHere: true, strand: 1 });
  expect(bends(drawn, 2)).toEqual([["in", 0, 1, "line"]]);
  expect(drawn.rows[4]?.strand).toBe(2);
  expect(drawn.lanes).toBe(2);
  // From the first node to the last; one that has a single node has no line of its own.
  expect(lines(drawn, 0)).toEqual([["line", 0.5, 5.5]]);
  expect(lines(drawn, 1)).toEqual([]);
});

test("who is left by its last child goes on to there", () => {
  const drawn = lanes([exchange("1", null, "main"), exchange("2", "1", "edit"), exchange("3", "2", "edit"), exchange("4", "1", "again")]);
  expect(lines(drawn, 0)).toEqual([["line", 0.5, 3]]);
  expect(bends(drawn, 3)).toEqual([["in", 0, 1, "line"]]);
  expect(drawn.rowOf.get("3")).toBe(2);
});

test("agents side by side have a lane each, and come back to who started them", () => {
  const drawn = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "a", agent),
    exchange("3", "1", "b", agent),
    exchange("4", "2", "a", agent),
    exchange("5", "3", "b", agent),
    exchange("6", "1", "main"),
  ]);
  expect(drawn.rows.map((row) => row.lane)).toEqual([0, 1, 2, 1, 2, 0]);
  expect(bends(drawn, 5)).toEqual([["in", 1, 0, "line"], ["in", 2, 0, "line"]]);
  // The first of both is done two rows before; its line goes on until then.
  expect(lines(drawn, 1)).toEqual([["line", 1.5, 5]]);
});

test("an agent of an agent comes back first, and one whose parent says nothing more does not come back", () => {
  const drawn = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "a", agent),
    exchange("3", "2", "deep", agent),
    exchange("4", "2", "a", agent),
    exchange("5", "1", "main"),
    exchange("6", "5", "last", agent),
  ]);
  expect(bends(drawn, 3)).toEqual([["in", 2, 1, "line"]]);
  expect(bends(drawn, 4)).toEqual([["in", 1, 0, "line"]]);
  expect(drawn.lines.filter((line) => line.to > 5)).toEqual([]);
});

test("what is quoted in another branch is a wire from one to the other", () => {
  const all = [exchange("1", null, "main"), exchange("2", "1", "edit"), exchange("3", "1", "main"), exchange("4", "3", "main")];
  const drawn = lanes(all, [quote("2", "4"), quote("4", "2"), quote("nobody", "4")]);
  expect(bends(drawn, 1)).toEqual([["in", 0, 1, "line"], ["out", 1, 2, "wire"]]);
  expect(lines(drawn, 2)).toEqual([["wire", 2, 3]]);
  expect(bends(drawn, 3)).toEqual([["in", 2, 0, "wire"]]);
});

test("an agent's report is where its strand comes back, and no wire beside it", () => {
  const all = [exchange("1", null, "main"), exchange("2", "1", "a", agent), exchange("3", "1", "main"), exchange("4", "3", "main")];
  const drawn = lanes(all, [quote("2", "4")]);
  expect(bends(drawn, 2)).toEqual([]);
  expect(bends(drawn, 3)).toEqual([["in", 1, 0, "line"]]);
  expect(drawn.lanes).toBe(2);
});

test("what was rewritten is dashed, and a compaction is a diamond", () => {
  const drawn = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "main", { rewritten: true }),
    exchange("3", "2", "compact", { branch_kind: "compact", link: { method: "summary", confidence: 1, reason: "" } }),
  ]);
  expect(lines(drawn, 0)).toEqual([["line", 0.5, 1], ["dashed", 1, 2]]);
  expect(drawn.rows[2]?.shape).toBe("compaction");
});

test("where there are too many, runs of plain turns are one row that can be opened", () => {
  const plain = Array.from({ length: 12 }, (_, at) => exchange(`p${at}`, at === 0 ? null : `p${at - 1}`, "main"));
  const all = [...plain, exchange("edit", "p5", "edit"), exchange("end", "p11", "main", { rewritten: true })];
  const rows = (opened: string[] = []) => lanes(all, [], { nodesMax: 8, opened: new Set(opened) }).rows;
  // What is left by a branch stays in sight.
  expect(rows().map((row) => [row.exchange.id, row.folded.length])).toEqual([["p0", 4], ["p5", 0], ["p6", 5], ["edit", 0], ["end", 0]]);
  expect(rows().map((row) => row.shape)).toEqual(["run", "turn", "run", "turn", "turn"]);
  expect(rows(["p0"])).toHaveLength(9);
  expect(lanes(all).rows).toHaveLength(14);
});

test("five thousand exchanges are laid out, and twenty thousand in few rows", () => {
  const many = (count: number, branches: number) => Array.from({ length: count }, (_, at) => exchange(String(at), at === 0 ? null : String(at - 1), `b${at % branches}`));
  const wide = lanes(many(5_000, 50));
  expect(wide.rows).toHaveLength(5_000);
  // A lane that passes a row adds nothing to it.
  expect(wide.lines.length + wide.bends.length).toBeLessThan(150);
  expect(lanes(many(20_000, 1)).rows.length).toBeLessThan(10);
});
