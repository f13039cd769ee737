import { useState } from "react";
import type { Part } from "../pure/session";
import { Turned } from "../remembered";
import { fold, visible } from "../pure/visible";
import { Markdown } from "./Markdown";
import { Picture } from "./Picture";

/** Folds that were opened, by message, so that they stay open when a list takes a message out of the page and back, and after a reload. */
const opened = new Turned("opened");

export function useOpened(key: string): [boolean, () => void] {
  const [isOpen, setOpen] = useState(opened.has(key));
  const toggle = () => setOpen(opened.turn(key));
  return [isOpen, toggle];
}

/** A text that folds when it is long. */
export function LongText({ text, id, as }: { text: string; id: string; as: "markdown" | "plain" }) {
  const [isOpen, toggle] = useOpened(id);
  const folded = fold(text);
  const shown = isOpen ? text : folded.shown;
  return (
    <>
      {as === "markdown" ? <Markdown text={shown} /> : <pre className="plain">{visible(shown)}</pre>}
      {folded.isFolded && (
        <button type="button" className="fold" aria-expanded={isOpen} onClick={toggle}>
          {isOpen ? "Show less" : `Show all ${folded.lines.toLocaleString("en")} lines`}
        </button>
      )}
    </>
  );
}

interface Block {
  part: Part;
  /** The blocks of its message that follow. */
  behind: Part[];
  id: string;
  isUser: boolean;
  exchange: string | null;
}

/** One block of a message. */
export function Said({ part, behind, id, isUser, exchange }: Block) {
  const [isOpen, toggle] = useOpened(`${id} fold`);
  switch (part.is) {
    case "text":
      return <LongText text={part.text} id={id} as={isUser && part.text.startsWith("<") ? "plain" : "markdown"} />;
    case "image":
      return <Picture part={part} exchange={exchange} alikeBehind={behind.filter((one) => isAlike(one, part)).length} />;
    case "thinking":
    case "other":
      return (
        <div className="thinking">
          <button type="button" className="fold" aria-expanded={isOpen} onClick={toggle}>
            {isOpen ? "▾" : "▸"} {part.is === "thinking" ? "thinking" : visible(part.kind)}
          </button>
          {isOpen && <LongText text={part.is === "thinking" ? part.text : part.json} id={`${id} inside`} as="plain" />}
        </div>
      );
  }
}

function isAlike(one: Part, other: Part & { is: "image" }): boolean {
  return one.is === "image" && one.detail === other.detail && one.length === other.length;
}
