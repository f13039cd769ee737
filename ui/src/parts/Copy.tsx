import { useEffect, useRef, useState, type ReactNode } from "react";

/** How long it says that something was copied. */
const SHOWN_MS = 1_200;

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that come over plain HTTP from another machine have no clipboard.
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "off-screen";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

interface Copies {
  text: string;
  label: string;
  className?: string;
  children: ReactNode;
}

/** Copies on a click and says so for a moment. */
export function Copy({ text, label, className, children }: Copies) {
  const [said, setSaid] = useState<string | null>(null);
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied!" : "Not copied");
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setSaid(null), SHOWN_MS);
  };
  return (
    <button type="button" className={`copy ${className ?? ""}`} title={`${label}: ${text}`} onClick={() => void copy()}>
      {said ?? children}
      <span className="off-screen" role="status">
        {said ?? ""}
      </span>
    </button>
  );
}
