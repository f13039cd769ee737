import { expect, test } from "vitest";
import { dayName, labelled, ticks } from "./scale";

test.each([
  [0, [0, 1]],
  [Number.NaN, [0, 1]],
  [1, [0, 0.25, 0.5, 0.75, 1]],
  [0.37, [0, 0.1, 0.2, 0.3, 0.4]],
  [4.12, [0, 2, 4, 6]],
  [10, [0, 2.5, 5, 7.5, 10]],
  [1_234_567, [0, 500_000, 1_000_000, 1_500_000]],
  [0.0003, [0, 0.0001, 0.0002, 0.0003]],
])("lines up to %d stand at round numbers", (largest, expected) => expect(ticks(largest, 4)).toEqual(expected));

test("the last day has its name, and others as far as there is room", () => {
  expect(labelled(7, 7)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(labelled(30, 6)).toEqual([4, 9, 14, 19, 24, 29]);
  expect(labelled(0, 6)).toEqual([]);
  expect(dayName("2026-03-01")).toBe("1 Mar");
  expect(dayName("soon")).toBe("soon");
});
