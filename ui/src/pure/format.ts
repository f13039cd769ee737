/** Numbers and times as people read them. The exact value goes into a title beside each. */

const UNITS = ["", "k", "M", "G", "T"];

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
  if (value >= 1000) return `$${Math.round(value).toLocaleString("en")}`;
  if (value >= 0.01) return `$${value.toFixed(2)}`;
  if (value >= 0.0001) return `$${value.toFixed(4)}`;
  return "<$0.0001";
}

export function exact(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 9 });
}

export function bytes(value: number): string {
  return `${short(value)}B`.replace("kB", " KB").replace("MB", " MB").replace("GB", " GB").replace(/(\d)B$/, "$1 B");
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
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
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

export function clock(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

export function moment(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : `${dayOf(date)} ${date.toLocaleTimeString("en-GB")}`;
}

export function counted(count: number, one: string, many: string): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** A model's name without what every name of its family has. */
export function modelName(model: string): string {
  return model.replace(/^claude-/, "").replace(/-\d{8}$/, "");
}
