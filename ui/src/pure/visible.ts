/** Characters that are not seen, or that turn what is beside them around: controls, directions, tags, zero widths. */
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

/** A text whose hidden characters are spelled out: what is shown is all there is. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (hidden) => `\\u{${(hidden.codePointAt(0) ?? 0).toString(16)}}`);
}

/** The first line with something in it. */
export function firstLine(text: string, most: number): string {
  const line = text.split("\n").find((line) => line.trim() !== "")?.trim() ?? "";
  return line.length > most ? `${line.slice(0, most).trimEnd()}…` : line;
}

export interface Folded {
  shown: string;
  lines: number;
  isFolded: boolean;
}

export const LINES_SHOWN = 40;
const CHARS_SHOWN = 8_000;

/** A long text's beginning. One line may be as long as a book, so characters count as well. */
export function fold(text: string): Folded {
  let at = -1;
  let lines = 1;
  for (let next = text.indexOf("\n"); next >= 0; next = text.indexOf("\n", next + 1)) {
    if (lines === LINES_SHOWN) at = next;
    lines += 1;
  }
  const end = Math.min(at < 0 ? text.length : at, CHARS_SHOWN);
  return { shown: text.slice(0, end), lines, isFolded: end < text.length };
}
