/** What a reader did to a page survives its reload, while the tab lives: what was opened, and where it was read. */

const PREFIX = "ropewalk.";
/** What is opened is remembered for so many; the oldest are forgotten. */
const OPENED_MAX = 500;

export function remembered(key: string): string | null {
  try {
    return window.sessionStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string): void {
  try {
    window.sessionStorage.setItem(PREFIX + key, value);
  } catch {
    // A page that may keep nothing begins anew.
  }
}

/** Names of what was turned from how it usually is: a fold that was opened, a group that was closed. */
export class Turned {
  private readonly names: Set<string>;

  constructor(private readonly key: string) {
    let read: unknown = [];
    try {
      read = JSON.parse(remembered(key) ?? "[]");
    } catch {
      // Somebody else wrote there.
    }
    this.names = new Set(Array.isArray(read) ? read.filter((name): name is string => typeof name === "string") : []);
  }

  has(name: string): boolean {
    return this.names.has(name);
  }

  /** Turns it the other way; says which it is now. */
  turn(name: string): boolean {
    const isTurned = !this.names.delete(name);
    if (isTurned) this.names.add(name);
    for (const oldest of this.names) {
      if (this.names.size <= OPENED_MAX) break;
      this.names.delete(oldest);
    }
    remember(this.key, JSON.stringify([...this.names]));
    return isTurned;
  }
}
