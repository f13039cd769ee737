import { expect, test } from "vitest";
import { diffLines } from "./diff";

const drawn = (before: string, after: string) =>
  diffLines(before, after).map(({ is, text }) => `${is === "same" ? " " : is === "new" ? "+" : "-"}${text}`);

test("only what differs is marked", () => {
  expect(drawn("a\nb\nc", "a\nx\nc")).toEqual([" a", "-b", "+x", " c"]);
  expect(drawn("a\nc", "a\nb\nc")).toEqual([" a", "+b", " c"]);
  expect(drawn("same", "same")).toEqual([" same"]);
});

test("a change too large to compare is a replacement", () => {
  const lines = (mark: string) => Array.from({ length: 2_000 }, (_, at) => mark + at).join("\n");
  const diff = diffLines(lines("a"), lines("b"));
  expect(diff.filter((line) => line.is === "gone")).toHaveLength(2_000);
  expect(diff.filter((line) => line.is === "new")).toHaveLength(2_000);
});
