import { expect, test } from "vitest";
import type { Exchange } from "../api";
import { lanes } from "./lanes";

function exchange(id: string, parent: string | null, branch: string, more: Partial<Exchange> = {}): Exchange {
  const made = { id, parent_exchange_id: parent, branch_key: branch, kind: "turn", rewritten: false, link: { method: "prefix" }, ...more };
  return made as unknown as Exchange;
}

test("a branch leaves its parent's lane and gives its own back", () => {
  const { rows, lanes: width } = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "main"),
    exchange("3", "1", "edit"),
    exchange("4", "2", "main"),
    exchange("5", "4", "other"),
    exchange("6", "4", "main"),
  ]);
  expect(rows.map((row) => row.lane)).toEqual([0, 0, 1, 0, 1, 0]);
  expect(rows[2]).toMatchObject({ beginsHere: true, endsHere: true, strand: 1 });
  expect(rows[2]?.edges).toContainEqual({ fromLane: 0, toLane: 1, strand: 1, isDashed: false });
  expect(rows[4]?.strand).toBe(2);
  expect(width).toBe(2);
});

test("agents side by side have a lane each", () => {
  const { rows } = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "a"),
    exchange("3", "1", "b"),
    exchange("4", "2", "a"),
    exchange("5", "3", "b"),
    exchange("6", "1", "main"),
  ]);
  expect(rows.map((row) => row.lane)).toEqual([0, 1, 2, 1, 2, 0]);
});

test("what was rewritten is dashed, and a compaction is a diamond", () => {
  const { rows } = lanes([
    exchange("1", null, "main"),
    exchange("2", "1", "main", { rewritten: true }),
    exchange("3", "2", "compact", { branch_kind: "compact", link: { method: "summary", confidence: 1, reason: "" } }),
  ]);
  expect(rows[1]?.edges[0]?.isDashed).toBe(true);
  expect(rows[2]?.shape).toBe("compaction");
});

test("five thousand exchanges are laid out", () => {
  const many = Array.from({ length: 5_000 }, (_, at) => exchange(String(at), at === 0 ? null : String(at - 1), `b${at % 50}`));
  expect(lanes(many).rows).toHaveLength(5_000);
});
