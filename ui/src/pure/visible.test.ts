import { expect, test } from "vitest";
import { firstLine, fold, LINES_SHOWN, visible } from "./visible";

test("what would hide or turn text around is spelled out", () => {
  expect(visible("a\u202eb")).toBe("a\\u{202e}b");
  expect(visible("\u001b[31m")).toBe("\\u{1b}[31m");
  expect(visible("x\u{e0041}y\u200bz")).toBe("x\\u{e0041}y\\u{200b}z");
});

test("what people write stays as it is", () => {
  for (const text of ["line\n\ttab", "naïve 日本語 😀", "שלום"]) expect(visible(text)).toBe(text);
});

test("long texts fold by lines and by characters", () => {
  const lines = Array.from({ length: 100 }, (_, at) => `line ${at}`).join("\n");
  const folded = fold(lines);
  expect(folded).toMatchObject({ isFolded: true, lines: 100 });
  expect(folded.shown.split("\n")).toHaveLength(LINES_SHOWN);
  expect(fold("x".repeat(100_000)).shown.length).toBeLessThan(10_000);
  expect(fold("short\ntext")).toEqual({ shown: "short\ntext", lines: 2, isFolded: false });
});

test("a title is the first line that says something", () => {
  expect(firstLine("\n\n  Fix it \nnow", 80)).toBe("Fix it");
  expect(firstLine("abcdef", 3)).toBe("abc…");
});
