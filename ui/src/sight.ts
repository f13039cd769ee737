/** Which messages are on the screen, told by the list of messages to the strands beside it without drawing the rest again. */

import { useSyncExternalStore } from "react";

export interface Sight {
  first: number;
  last: number;
}

export class Sights {
  private now: Sight = { first: 0, last: -1 };
  private readonly listeners = new Set<() => void>();

  see(first: number, last: number): void {
    if (first === this.now.first && last === this.now.last) return;
    this.now = { first, last };
    for (const listener of this.listeners) listener();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly current = (): Sight => this.now;
}

export function useSight(sights: Sights): Sight {
  return useSyncExternalStore(sights.subscribe, sights.current);
}
