/** Sums by day, laid out for the charts of the start page. */

import type { Stats, Sums } from "../api";
import { dayOf } from "./format";

/** The days up to now, oldest first, in the reader's time. */
export function lastDays(now: number, count: number): string[] {
  const today = new Date(now);
  return Array.from({ length: count }, (_, at) => {
    const day = new Date(today.getFullYear(), today.getMonth(), today.getDate() - (count - 1 - at));
    return dayOf(day);
  });
}

/** One figure of each day, over all models. */
export function perDay(stats: Stats, days: string[], figure: (sums: Sums) => number): number[] {
  return days.map((day) => Object.values(stats.days[day] ?? {}).reduce((sum, sums) => sum + figure(sums), 0));
}

export interface Series {
  model: string;
  total: number;
  values: number[];
}

/** Cost by model, the dearest first; models beyond the colours that can be told apart are added up. */
export function costByModel(stats: Stats, days: string[], most: number): Series[] {
  const series = Object.keys(stats.models).map((model) => {
    const values = days.map((day) => stats.days[day]?.[model]?.cost_usd ?? 0);
    return { model, values, total: values.reduce((sum, value) => sum + value, 0) };
  });
  const known = series.filter((one) => one.total > 0).sort((a, b) => b.total - a.total);
  if (known.length <= most) return known;
  const rest = known.slice(most - 1);
  const others = {
    model: `${rest.length} others`,
    values: days.map((_, at) => rest.reduce((sum, one) => sum + (one.values[at] ?? 0), 0)),
    total: rest.reduce((sum, one) => sum + one.total, 0),
  };
  return [...known.slice(0, most - 1), others];
}

/** How strongly a cell is coloured, 0 to 4: by quarters of the largest, so that one busy day does not hide the others. */
export function heat(value: number, largest: number): number {
  if (value <= 0 || largest <= 0) return 0;
  return Math.max(1, Math.ceil(Math.sqrt(value / largest) * 4));
}

export interface Week {
  days: ({ day: string; value: number } | null)[];
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The name of a month above the first week that begins in it, where there is room beside the one before. */
export function monthsOf(columns: Week[]): string[] {
  let before = "";
  let last = -3;
  return columns.map((week, at) => {
    const month = week.days.find((day) => day !== null)?.day.slice(0, 7) ?? "";
    const isNew = month !== before && at - last >= 3;
    if (month !== before) before = month;
    if (!isNew) return "";
    last = at;
    return MONTHS[Number(month.slice(5)) - 1] ?? "";
  });
}

/** Columns of seven days, Monday first. */
export function weeks(days: string[], values: number[]): Week[] {
  const columns: Week[] = [];
  days.forEach((day, at) => {
    const row = (new Date(`${day}T12:00:00`).getDay() + 6) % 7;
    if (columns.length === 0 || row === 0) columns.push({ days: Array.from({ length: 7 }, () => null) });
    const column = columns.at(-1);
    if (column) column.days[row] = { day, value: values[at] ?? 0 };
  });
  return columns;
}
