/** A text cut where words of a search occur in it. */

export interface Piece {
  text: string;
  isFound: boolean;
}

export function marked(text: string, query: string): Piece[] {
  const words = query.split(/[\s"]+/).filter((word) => word !== "");
  if (words.length === 0) return [{ text, isFound: false }];
  const pattern = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "giu");
  const pieces: Piece[] = [];
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    if (found.index > end) pieces.push({ text: text.slice(end, found.index), isFound: false });
    pieces.push({ text: found[0], isFound: true });
    end = found.index + found[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), isFound: false });
  return pieces;
}
