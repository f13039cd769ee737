import { useState } from "react";
import { keysHere } from "../keys";

const NAMES: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

function shown(key: string): string {
  const parts = key.split("+").map((part) => NAMES[part] ?? (part === "Mod" ? "Ctrl/⌘" : part));
  return parts.join(" ");
}

export function Help() {
  // Taken once: the dialog's own keys are no part of what it explains.
  const [keys] = useState(keysHere);
  return (
    <dl className="keys">
      {keys.map(({ key, does }) => (
        <div key={key + does}>
          <dt>
            <kbd>{shown(key)}</kbd>
          </dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
  );
}
