import { expect, test } from "vitest";
import { highlight, HIGHLIGHT_CHARS_MAX } from "./highlight";

const kinds = (code: string, language: string) =>
  highlight(code, language)
    .filter((piece) => piece.is !== "plain")
    .map((piece) => `${piece.is}:${piece.text}`);

test("comments, texts, numbers and words are told apart", () => {
  expect(kinds('let x = "a // b"; // 12\nreturn 0x1f;', "rust")).toEqual(["word:let", 'text:"a // b"', "comment:// 12", "word:return", "number:0x1f"]);
  expect(kinds("def f(): # why\n  return 'x'", "python")).toEqual(["word:def", "comment:# why", "word:return", "text:'x'"]);
  expect(kinds("#fff // c", "css")).toEqual(["comment:// c"]);
});

test("all of a text comes out again, whatever it is", () => {
  for (const code of ['"open', "/* open", "'", "`\\", "a\u0000b", "x".repeat(9) + "\\\"", "<script>alert(1)</script>"]) {
    expect(highlight(code, "js").map((piece) => piece.text).join("")).toBe(code);
  }
});

test("long code and what is no code stay as they are", () => {
  expect(highlight("if ".repeat(HIGHLIGHT_CHARS_MAX), "js")).toHaveLength(1);
  expect(highlight("if x", "text")).toEqual([{ is: "plain", text: "if x" }]);
});
