/** Where the lines of a chart are, so that they stand at numbers that people read. */

const STEPS = [1, 2, 2.5, 5, 10];

/** From 0 up to at least `largest`, in `count` steps or fewer: 0, 0.5, 1 and not 0, 0.37, 0.74. */
export function ticks(largest: number, count: number): number[] {
  if (!(largest > 0) || !Number.isFinite(largest)) return [0, 1];
  const rough = largest / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (STEPS.find((one) => one * power >= rough * (1 - 1e-9)) ?? 10);
  const steps = Math.ceil(largest / step - 1e-9);
  // Multiplied rather than added up: the sum of many tenths is no round number.
  return Array.from({ length: steps + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}

/** Which days have their name below a chart: the last, and others evenly before it. */
export function labelled(count: number, most: number): number[] {
  const step = Math.max(1, Math.ceil(count / most));
  const all: number[] = [];
  for (let at = count - 1; at >= 0; at -= step) all.unshift(at);
  return all;
}

/** 3 Mar. */
export function dayName(day: string): string {
  const date = new Date(`${day}T12:00:00`);
  return Number.isNaN(date.getTime()) ? day : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}
