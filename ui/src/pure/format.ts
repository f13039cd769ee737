/** Numbers and times as people read them. The exact value goes into a title beside each. */

import type { Exchange } from "../api";

const UNITS = ["", "k", "M", "G", "T"];

/** Made once: making one takes longer than drawing the row that it is for. */
const EXACT = new Intl.NumberFormat("en", { maximumFractionDigits: 9 });

/** 950, 1.2k, 34k, 1.5M. */
export function short(value: number): string {
  let unit = 0;
  let left = value;
  while (Math.abs(left) >= 999.5 && unit < UNITS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  const digits = unit > 0 && Math.abs(left) < 9.95 ? 1 : 0;
  return `${left.toFixed(digits)}${UNITS[unit]}`;
}

/** $0, $0.0004, $0.02, $4.12, $1,204. */
export function dollars(value: number): string {
  if (value === 0) return "$0";
  if (value >= 1000) return `$${exact(Math.round(value))}`;
  if (value >= 0.01) return `$${value.toFixed(2)}`;
  if (value >= 0.0001) return `$${value.toFixed(4)}`;
  return "<$0.0001";
}

export function exact(value: number): string {
  return EXACT.format(value);
}

export function bytes(value: number): string {
  return `${short(value)}B`.replace("kB", " KB").replace("MB", " MB").replace("GB", " GB").replace(/(\d)B$/, "$1 B");
}

/** 43 %, <1 %: what is little is not nothing. */
export function percent(share: number): string {
  return share > 0 && share < 0.005 ? "<1 %" : `${Math.round(share * 100)} %`;
}

/** 3 s, 12 m, 5 h, 2 d; longer ago than a month it is a date. */
export function age(from: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(from)) / 1000));
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 31 * 86_400) return `${Math.floor(seconds / 86_400)} d`;
  return dayOf(new Date(from));
}

/** 85 ms, 1.2 s, 2 m. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} m`;
}

/** The day in the reader's own time, as in 2026-03-01. */
export function dayOf(date: Date): string {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** 09:05, in the reader's own time. */
export function clock(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** 2026-03-01 09:05:30. */
export function moment(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : `${dayOf(date)} ${clock(at)}:${two(date.getSeconds())}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

export function counted(count: number, one: string, many: string): string {
  return `${exact(count)} ${count === 1 ? one : many}`;
}

/** A model's name without what every name of its family has. */
export function modelName(model: string): string {
  return model.replace(/^claude-/, "").replace(/-\d{8}$/, "");
}

const STATUSES: Record<Exchange["status"], string> = {
  pending: "pending",
  complete: "complete",
  error: "failed",
  truncated: "broke off",
  client_cancelled: "cancelled",
};

/** How an exchange ended, in words. */
export function statusInWords(status: Exchange["status"]): string {
  return STATUSES[status];
}
