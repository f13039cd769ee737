import { expect, test } from "vitest";
import type { Stats, Sums } from "../api";
import { costByModel, heat, lastDays, monthsOf, perDay, weeks } from "./days";

const sums = (cost_usd: number) => ({ cost_usd, exchanges: 1 }) as Sums;
const stats = {
  days: { "2026-03-01": { a: sums(1), b: sums(2) }, "2026-03-02": { c: sums(4) } },
  models: { a: sums(1), b: sums(2), c: sums(4), free: sums(0) },
} as unknown as Stats;
const days = ["2026-02-28", "2026-03-01", "2026-03-02"];

test("days end with today and cross months", () => {
  expect(lastDays(new Date(2026, 2, 2, 23, 59).getTime(), 3)).toEqual(days);
});

test("figures are added up by day", () => {
  expect(perDay(stats, days, (one) => one.cost_usd)).toEqual([0, 3, 4]);
});

test("models are ranked by cost, and what is beyond the colours is one", () => {
  expect(costByModel(stats, days, 8).map((one) => one.model)).toEqual(["c", "b", "a"]);
  expect(costByModel(stats, days, 2)).toMatchObject([{ model: "c" }, { model: "2 others", total: 3, values: [0, 3, 0] }]);
});

test("weeks begin on Monday and small values are still seen", () => {
  const columns = weeks(days, [1, 2, 3]);
  expect(columns.map((week) => week.days.filter((day) => day !== null).length)).toEqual([2, 1]);
  expect(columns[1]?.days[0]).toEqual({ day: "2026-03-02", value: 3 });
  expect([heat(0, 9), heat(0.01, 900), heat(9, 9)]).toEqual([0, 1, 4]);
});

test("a month has its name above its first week, unless there is no room", () => {
  const half = lastDays(new Date(2026, 2, 15, 12).getTime(), 60);
  const names = monthsOf(weeks(half, half.map(() => 0)));
  expect(names.filter((name) => name !== "")).toEqual(["Jan", "Feb", "Mar"]);
  expect(monthsOf(weeks(days, [1, 2, 3]))).toEqual(["Feb", ""]);
});
