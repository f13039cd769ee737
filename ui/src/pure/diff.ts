/** Lines that were taken out and put in, for edits of a file. */

export interface DiffLine {
  is: "same" | "gone" | "new";
  text: string;
}

/** Above this product of lines the middle is shown as replaced as a whole: the table would be too large. */
const CELLS_MAX = 250_000;

export function diffLines(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  const least = Math.min(old.length, now.length) - head;
  while (tail < least && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const same = (text: string): DiffLine => ({ is: "same", text });
  return [
    ...old.slice(0, head).map(same),
    ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)),
    ...old.slice(old.length - tail).map(same),
  ];
}

function middle(old: string[], now: string[]): DiffLine[] {
  const gone = (text: string): DiffLine => ({ is: "gone", text });
  const fresh = (text: string): DiffLine => ({ is: "new", text });
  if (old.length * now.length > CELLS_MAX) return [...old.map(gone), ...now.map(fresh)];
  // Lengths of the longest common rest from each pair of places on.
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const here = i * width + j;
      const diagonal = (common[here + width + 1] ?? 0) + 1;
      common[here] = old[i] === now[j] ? diagonal : Math.max(common[here + width] ?? 0, common[here + 1] ?? 0);
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    const here = i * width + j;
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ is: "same", text: old[i] ?? "" });
      [i, j] = [i + 1, j + 1];
    } else if (j >= now.length || (i < old.length && (common[here + width] ?? 0) >= (common[here + 1] ?? 0))) {
      lines.push(gone(old[i] ?? ""));
      i += 1;
    } else {
      lines.push(fresh(now[j] ?? ""));
      j += 1;
    }
  }
  return lines;
}
