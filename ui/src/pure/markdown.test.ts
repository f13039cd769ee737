import { expect, test } from "vitest";
import { inline, parse, safeAddress, type Block, type Inline } from "./markdown";

const text = (text: string): Inline => ({ is: "text", text });

test("paragraphs, headings, code and rules", () => {
  expect(parse("# One\n\ntext\nmore\n\n```rust\nfn main() {}\n# no heading\n```\n---")).toEqual([
    { is: "heading", level: 1, inside: [text("One")] },
    { is: "paragraph", inside: [text("text\nmore")] },
    { is: "code", language: "rust", text: "fn main() {}\n# no heading" },
    { is: "rule" },
  ]);
});

test("a fence that never ends is code to the end", () => {
  expect(parse("```\na\nb")).toEqual([{ is: "code", language: "", text: "a\nb" }]);
});

test("lists, nested and numbered", () => {
  const [list] = parse("- a\n  - b\n- c") as [Extract<Block, { is: "list" }>];
  expect(list.items).toHaveLength(2);
  expect(list.items[0]?.[1]).toMatchObject({ is: "list", ordered: false });
  expect(parse("3. x\n4. y")).toMatchObject([{ is: "list", ordered: true, start: 3 }]);
});

test("tables and quotes", () => {
  expect(parse("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 |")).toMatchObject([
    { is: "table", head: [[text("a")], [text("b")]], rows: [[[text("1")], [text("2")]], [[text("3")], []]] },
  ]);
  expect(parse("> said\n> more")).toEqual([{ is: "quote", blocks: [{ is: "paragraph", inside: [text("said\nmore")] }] }]);
});

test("emphasis, but not inside words or sums", () => {
  expect(inline("**b** *i* ~~d~~ `c`")).toMatchObject([
    { is: "strong" },
    text(" "),
    { is: "em" },
    text(" "),
    { is: "del" },
    text(" "),
    { is: "code", text: "c" },
  ]);
  expect(inline("snake_case_name and 2 * 3 * 4")).toEqual([text("snake_case_name and 2 * 3 * 4")]);
});

test("links go to the web or stay text", () => {
  expect(inline("[x](https://example.org/a?b)")).toMatchObject([{ is: "link", href: "https://example.org/a?b" }]);
  expect(inline("see https://example.org/a.")).toMatchObject([text("see "), { is: "link", href: "https://example.org/a" }, text(".")]);
  for (const bad of ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "//evil.example", "/api/v1", "java\nscript:x", "file:///etc"]) {
    expect(safeAddress(bad), bad).toBeNull();
    expect(inline(`[x](${bad})`).every((piece) => piece.is !== "link"), bad).toBe(true);
  }
});

test("HTML and images are text", () => {
  for (const hostile of ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "![x](https://evil.example/i.png)"]) {
    const flat = JSON.stringify(parse(hostile));
    expect(flat).not.toContain('"image"');
    expect(parse(hostile)).toMatchObject([{ is: "paragraph" }]);
  }
});

test("hostile nesting ends, and soon", () => {
  const deep = [">".repeat(5_000), "- ".repeat(5_000), "*".repeat(20_000), "[".repeat(20_000), "`".repeat(20_000), "**a ".repeat(5_000)];
  for (const text of deep) expect(parse(text).length).toBeGreaterThan(0);
});
