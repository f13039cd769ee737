/**
 * The part of Markdown that answers use, as a tree of what is allowed and nothing else. Whatever is not recognised stays the
 * text it is: there is no HTML, no image that is fetched, and a link goes to the web or nowhere.
 */

export type Inline =
  | { is: "text"; text: string }
  | { is: "code"; text: string }
  | { is: "strong" | "em" | "del"; inside: Inline[] }
  | { is: "link"; href: string; inside: Inline[] };

export type Block =
  | { is: "paragraph"; inside: Inline[] }
  | { is: "heading"; level: number; inside: Inline[] }
  | { is: "code"; language: string; text: string }
  | { is: "list"; ordered: boolean; start: number; items: Block[][] }
  | { is: "quote"; blocks: Block[] }
  | { is: "table"; head: Inline[][]; rows: Inline[][][] }
  | { is: "rule" };

/** Quotes and lists inside each other; deeper ones are text. */
const DEPTH_MAX = 8;
/** Emphasis inside emphasis. */
const INLINE_DEPTH_MAX = 6;

export function parse(text: string, depth = 0): Block[] {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), depth);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,7})([-*+]|\d{1,9}[.)])(\s+)(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/;

function blocks(lines: string[], depth: number): Block[] {
  const found: Block[] = [];
  let at = 0;
  let paragraph: string[] = [];
  const end = () => {
    if (paragraph.length > 0) found.push({ is: "paragraph", inside: inline(paragraph.join("\n")) });
    paragraph = [];
  };
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (fence) {
      end();
      at = code(lines, at, fence[1] ?? "```", fence[2] ?? "", found);
    } else if (heading) {
      end();
      found.push({ is: "heading", level: heading[1]?.length ?? 1, inside: inline(heading[2] ?? "") });
      at += 1;
    } else if (RULE.test(line)) {
      end();
      found.push({ is: "rule" });
      at += 1;
    } else if (depth < DEPTH_MAX && QUOTE.test(line)) {
      end();
      const quoted = [];
      for (; at < lines.length && QUOTE.test(lines[at] ?? ""); at += 1) quoted.push((lines[at] ?? "").replace(QUOTE, ""));
      found.push({ is: "quote", blocks: blocks(quoted, depth + 1) });
    } else if (depth < DEPTH_MAX && isItem(line, paragraph.length > 0)) {
      end();
      at = list(lines, at, depth, found);
    } else if (line.includes("|") && TABLE_RULE.test(lines[at + 1] ?? "")) {
      end();
      at = table(lines, at, found);
    } else {
      if (line.trim() === "") end();
      else paragraph.push(line);
      at += 1;
    }
  }
  end();
  return found;
}

function code(lines: string[], at: number, fence: string, language: string, found: Block[]): number {
  const inside: string[] = [];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = (lines[next] ?? "").trim();
    if (line.length >= fence.length && line === (fence[0] ?? "`").repeat(line.length)) break;
    inside.push(lines[next] ?? "");
  }
  found.push({ is: "code", language, text: inside.join("\n") });
  return next + 1;
}

/** Inside a paragraph only what surely is one: a line may begin with a year and a full stop. */
function isItem(line: string, inParagraph: boolean): boolean {
  const item = ITEM.exec(line);
  if (!item) return false;
  return !inParagraph || !/^\d/.test(item[2] ?? "") || /^1[.)]$/.test(item[2] ?? "");
}

function list(lines: string[], from: number, depth: number, found: Block[]): number {
  const first = ITEM.exec(lines[from] ?? "");
  const marker = first?.[2] ?? "-";
  const ordered = /^\d/.test(marker);
  const outer = first?.[1]?.length ?? 0;
  const items: string[][] = [];
  let at = from;
  let inner = 0;
  for (; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const item = ITEM.exec(line);
    const indent = line.length - line.trimStart().length;
    if (item && indent <= outer + 1) {
      if (/^\d/.test(item[2] ?? "") !== ordered) break;
      inner = indent + (item[2]?.length ?? 1) + Math.min(item[3]?.length ?? 1, 4);
      items.push([item[4] ?? ""]);
    } else if (line.trim() === "") {
      const next = lines[at + 1] ?? "";
      const goesOn = next.startsWith(" ".repeat(outer + 2)) || ITEM.test(next);
      if (next.trim() === "" || !goesOn) break;
      items.at(-1)?.push("");
    } else if (indent > outer || !startsAnother(line)) {
      items.at(-1)?.push(line.slice(Math.min(indent, inner)));
    } else break;
  }
  const start = ordered ? Number.parseInt(marker, 10) : 1;
  found.push({ is: "list", ordered, start, items: items.map((item) => blocks(item, depth + 1)) });
  return at;
}

function startsAnother(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}

function table(lines: string[], from: number, found: Block[]): number {
  const head = cells(lines[from] ?? "");
  const rows: Inline[][][] = [];
  let at = from + 2;
  for (; at < lines.length && (lines[at] ?? "").includes("|"); at += 1) {
    const row = cells(lines[at] ?? "");
    rows.push(head.map((_, column) => row[column] ?? []));
  }
  found.push({ is: "table", head, rows });
  return at;
}

function cells(line: string): Inline[][] {
  const bare = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return bare.split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replace(/\\\|/g, "|")));
}

const MARKS: [string, "strong" | "em" | "del"][] = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
];

const RUN_MAX = 4_096;

export function inline(text: string, depth = 0): Inline[] {
  const found: Inline[] = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain !== "") found.push({ is: "text", text: plain });
    plain = "";
  };
  while (at < text.length) {
    const piece = depth < INLINE_DEPTH_MAX ? pieceAt(text, at, depth) : null;
    if (piece) {
      flush();
      found.push(piece.inline);
      at = piece.end;
    } else if (text[at] === "\\" && /[\\`*_{}[\]()#+.!|~<>-]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else {
      // A run of marks that open nothing is text as a whole: to try each of them again would take long.
      const run = /^(?:`+|\*+|_+|~+|\[+)/.exec(text.slice(at, at + RUN_MAX))?.[0] ?? text[at] ?? "";
      plain += run;
      at += run.length;
    }
  }
  flush();
  return found;
}

interface Piece {
  inline: Inline;
  end: number;
}

function pieceAt(text: string, at: number, depth: number): Piece | null {
  switch (text[at]) {
    case "`":
      return codeAt(text, at);
    case "[":
      return linkAt(text, at, depth);
    case "h":
      return addressAt(text, at);
    case "*":
    case "_":
    case "~":
      return markedAt(text, at, depth);
    default:
      return null;
  }
}

function codeAt(text: string, at: number): Piece | null {
  const ticks = /^`+/.exec(text.slice(at, at + 32))?.[0] ?? "`";
  let end = text.indexOf(ticks, at + ticks.length);
  while (end >= 0 && text[end + ticks.length] === "`") {
    while (text[end] === "`") end += 1;
    end = text.indexOf(ticks, end);
  }
  if (end < 0) return null;
  const inside = text.slice(at + ticks.length, end);
  const bare = /^ .*[^ ].* $/s.test(inside) ? inside.slice(1, -1) : inside;
  return { inline: { is: "code", text: bare }, end: end + ticks.length };
}

function markedAt(text: string, at: number, depth: number): Piece | null {
  for (const [mark, is] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const before = text[at - 1] ?? " ";
    const from = at + mark.length;
    // snake_case is no emphasis, and neither is 2 * 3.
    if (mark[0] === "_" && /\w/.test(before)) continue;
    if (/\s/.test(text[from] ?? " ")) continue;
    const end = closing(text, from, mark);
    if (end > from) return { inline: { is, inside: inline(text.slice(from, end), depth + 1) }, end: end + mark.length };
  }
  return null;
}

/** Emphasis that does not end soon is none. */
const EMPHASIS_MAX = 2_000;

function closing(text: string, from: number, mark: string): number {
  const last = Math.min(text.length, from + EMPHASIS_MAX);
  for (let end = text.indexOf(mark, from + 1); end >= 0 && end < last; end = text.indexOf(mark, end + 1)) {
    const after = text[end + mark.length] ?? " ";
    if (/\s/.test(text[end - 1] ?? " ") || (mark[0] === "_" && /\w/.test(after))) continue;
    if (mark.length === 1 && (after === mark || text[end - 1] === mark)) continue;
    return end;
  }
  return -1;
}

const LINK = /^\[([^[\]]{1,500})\]\(\s*<?([^\s()<>]{1,2000}(?:\([^\s()<>]*\)[^\s()<>]*)?)>?(?:\s+"[^"]*")?\s*\)/;

function linkAt(text: string, at: number, depth: number): Piece | null {
  const link = LINK.exec(text.slice(at, at + 2_600));
  if (!link) return null;
  const href = safeAddress(link[2] ?? "");
  if (href === null) return null;
  return { inline: { is: "link", href, inside: inline(link[1] ?? "", depth + 1) }, end: at + link[0].length };
}

function addressAt(text: string, at: number): Piece | null {
  if (/\w/.test(text[at - 1] ?? " ")) return null;
  const found = /^https?:\/\/[^\s<>"'`|\\^{}]{1,2000}/.exec(text.slice(at, at + 2_020))?.[0];
  if (!found) return null;
  const bare = found.replace(/[.,;:!?)\]*_~]+$/, "");
  const href = safeAddress(bare);
  return href === null ? null : { inline: { is: "link", href, inside: [{ is: "text", text: bare }] }, end: at + bare.length };
}

/** The address where it is one of the web, written out by the browser's own parser. */
export function safeAddress(address: string): string | null {
  if (!/^https?:\/\//i.test(address)) return null;
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}
