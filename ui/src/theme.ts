/** Dark or light: as the system has it, unless the reader chose. */

const KEY = "ropewalk.theme";

export type Theme = "dark" | "light";

export function theme(): Theme {
  const chosen = kept(KEY);
  if (chosen === "dark" || chosen === "light") return chosen;
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
}

export function toggleTheme(): Theme {
  keep(KEY, theme() === "dark" ? "light" : "dark");
  applyTheme();
  return theme();
}

/** What a reader chose survives a reload, where the browser lets a page keep things. */
export function kept(key: string): string | null {
  try {
    return window.localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function keep(key: string, value: string): void {
  try {
    window.localStorage.setItem(key, value);
  } catch {
    // Chosen again next time.
  }
}
