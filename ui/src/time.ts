import { useEffect, useState, useSyncExternalStore } from "react";

/** Ages are shown in seconds at first, so they are written again as often as it is seen. */
const TICK_MS = 10_000;

let now = Date.now();
const listeners = new Set<() => void>();
let timer: number | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, a little behind. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

export function startOfToday(now: number): string {
  const day = new Date(now);
  day.setHours(0, 0, 0, 0);
  return day.toISOString();
}

/** Whether something has been so for a while: what is over in a moment is not worth a reader's eye. */
export function useLasting(isSo: boolean, ms: number): boolean {
  const [isLasting, setLasting] = useState(false);
  useEffect(() => {
    if (!isSo) return;
    const timer = window.setTimeout(() => setLasting(true), ms);
    return () => {
      window.clearTimeout(timer);
      setLasting(false);
    };
  }, [isSo, ms]);
  return isLasting;
}
