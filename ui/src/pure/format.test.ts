import { expect, test } from "vitest";
import { age, bytes, clock, counted, dollars, duration, exact, modelName, moment, percent, short, statusInWords } from "./format";

test.each([
  [0, "0"],
  [950, "950"],
  [999.6, "1.0k"],
  [1234, "1.2k"],
  [34_499, "34k"],
  [1_500_000, "1.5M"],
  [2e12, "2.0T"],
])("%d is %s", (value, shown) => expect(short(value)).toBe(shown));

test.each([
  [0, "$0"],
  [0.00001, "<$0.0001"],
  [0.00042, "$0.0004"],
  [0.0234, "$0.02"],
  [4.123, "$4.12"],
  [1204.4, "$1,204"],
])("$%d is %s", (value, shown) => expect(dollars(value)).toBe(shown));

test("ages get coarser the older they are", () => {
  const now = Date.parse("2026-03-10T12:00:00Z");
  const ago = (seconds: number) => age(new Date(now - seconds * 1000).toISOString(), now);
  expect([ago(5), ago(190), ago(7300), ago(3 * 86_400)]).toEqual(["5 s", "3 m", "2 h", "3 d"]);
  expect(ago(-30)).toBe("0 s");
  expect(age("never", now)).toBe("");
  expect(ago(90 * 86_400)).toMatch(/^\d{4}-\d{2}-\d{2}$/);
});

test("sizes, shares and times have their units", () => {
  expect([bytes(12), bytes(1234), bytes(5e6)]).toEqual(["12 B", "1.2 KB", "5.0 MB"]);
  expect([percent(0), percent(0.001), percent(1)]).toEqual(["0 %", "<1 %", "100 %"]);
  expect([percent(0.426), duration(85), duration(1234), duration(150_000)]).toEqual(["43 %", "85 ms", "1.2 s", "3 m"]);
  expect([counted(1, "turn", "turns"), counted(1200, "turn", "turns")]).toEqual(["1 turn", "1,200 turns"]);
  expect(modelName("claude-sonnet-4-5-20250929")).toBe("sonnet-4-5");
});

test("times are the reader's own, and exact values have all their digits", () => {
  const at = new Date(2026, 2, 1, 9, 5, 30).toISOString();
  expect([clock(at), moment(at)]).toEqual(["09:05", "2026-03-01 09:05:30"]);
  expect([clock("never"), moment("never")]).toEqual(["", ""]);
  expect([exact(0.000000125), exact(1234567.5)]).toEqual(["0.000000125", "1,234,567.5"]);
});

test("how an exchange ended is said in words", () => {
  expect(statusInWords("client_cancelled")).toBe("cancelled");
  expect(statusInWords("truncated")).toBe("broke off");
});
