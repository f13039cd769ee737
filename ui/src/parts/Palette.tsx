import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState, type KeyboardEvent } from "react";
import type { Suggestion } from "../api";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { go, to, VIEWS } from "../router";

interface Choice {
  name: string;
  detail: string;
  path: string;
}

const CHOICES: Choice[] = VIEWS.map(([path, name]) => ({ name, detail: "view", path }));

/** Jumps to a view, a conversation by the beginning of its name, or to a search. */
export function Palette({ onDone }: { onDone: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const asked = useDeferredValue(typed.trim());
  const found = useQuery(queries.suggestions(asked));
  const choices = useMemo(() => choicesFor(typed.trim(), found.data?.suggestions ?? []), [typed, found.data]);
  const chosen = Math.min(at, choices.length - 1);
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    onDone();
    go(choice.path);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setAt((chosen + step + choices.length) % choices.length);
    else if (event.key === "Enter") choose(choices[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <div className="palette">
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={`choice-${chosen}`}
        aria-label="Search or jump"
        placeholder="A view, a conversation's name, or words to find"
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="choices" role="listbox" aria-label="Choices">
        {choices.map((choice, index) => (
          <li
            key={choice.path}
            id={`choice-${index}`}
            role="option"
            aria-selected={index === chosen}
            onClick={() => choose(choice)}
            onMouseMove={() => setAt(index)}
          >
            <span>{visible(choice.name)}</span> <span className="quiet">{visible(choice.detail)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function choicesFor(typed: string, found: Suggestion[]): Choice[] {
  const views = CHOICES.filter((view) => view.name.toLowerCase().includes(typed.toLowerCase()));
  const named = found.map((one): Choice => {
    const isMessage = one.kind === "message" && one.short_hash !== null;
    const name = isMessage ? `${one.friendly_id} #${one.index ?? ""}` : one.friendly_id;
    return { name, detail: one.text ?? "", path: to.conversation(one.friendly_id, {}, isMessage ? one.short_hash : null) };
  });
  const search = { name: `Search for “${typed}”`, detail: "everything that was said", path: `/search?q=${encodeURIComponent(typed)}` };
  return typed === "" ? [...views, ...named] : [...named, ...views, search];
}
