import { useEffect, useRef, useState } from "react";
import type { TreeMessage } from "../api";
import { counted } from "../pure/format";
import type { Group, Operation, Session } from "../pure/session";
import { attachedTo, partsOf } from "../pure/session";
import { lineOf, toolOf, type Tool } from "../pure/tools";
import { firstLine, visible } from "../pure/visible";
import { Turned } from "../remembered";
import { follow } from "../router";
import { Diff } from "./Diff";
import { Icon } from "./Icon";
import { LongText, Said, useOpened } from "./Said";

interface Panel {
  session: Session;
  groups: Group[];
  /** The assistant message whose tools somebody asked for. */
  wanted: string | null;
  linkToAgent: (agent: string) => string;
  onCause: (uuid: string) => void;
}

/** Groups that were closed; they are open otherwise. */
const closed = new Turned("closed");

/** Tool operations beside the conversation, below the assistant message that caused them. */
export function Sidechain({ session, groups, wanted, linkToAgent, onCause }: Panel) {
  const [, setTurns] = useState(0);
  const pane = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (wanted === null) return;
    const found = pane.current?.querySelector(`[data-cause="${CSS.escape(wanted)}"]`);
    found?.scrollIntoView({ block: "start" });
  }, [wanted, groups]);
  const toggle = (key: string) => {
    closed.turn(key);
    setTurns((before) => before + 1);
  };
  return (
    <div className="sidechain" ref={pane} tabIndex={0} role="region" aria-label="Sidechain">
      {groups.length === 0 && <Nothing session={session} />}
      {groups.map((group) => {
        const key = group.cause?.uuid ?? "";
        const isOpen = !closed.has(key) || wanted === key;
        return (
          <section key={key} data-cause={key} className={wanted === key ? "wanted" : ""}>
            <h3>
              <button type="button" aria-expanded={isOpen} onClick={() => toggle(key)}>
                {isOpen ? "▾" : "▸"} {titleOf(group)}
              </button>
              {group.cause && (
                <button type="button" className="jump" aria-label="Show the message" onClick={() => onCause(key)}>
                  ↤
                </button>
              )}
            </h3>
            {isOpen && (
              <ul>
                {group.operations.map((operation) => (
                  <Row key={(operation.use ?? operation.result)?.uuid} operation={operation} linkToAgent={linkToAgent} />
                ))}
              </ul>
            )}
          </section>
        );
      })}
    </div>
  );
}

function titleOf(group: Group): string {
  if (!group.cause) return "Without a parent";
  const text = partsOf(group.cause).find((part) => part.is === "text");
  return text?.is === "text" ? `“${visible(firstLine(text.text, 48))}”` : counted(group.operations.length, "tool", "tools");
}

/** Says what it looked at, so that somebody who expected tools sees why there are none. */
function Nothing({ session }: { session: Session }) {
  const { messages, sidechains, tools, parents } = session.counts();
  return (
    <p className="state">
      No tools on this path. Seen: {counted(messages, "message", "messages")}, {counted(sidechains, "sidechain", "sidechains")},{" "}
      {counted(tools, "tool operation", "tool operations")}, {counted(parents, "parent", "parents")}.
    </p>
  );
}

function Row({ operation, linkToAgent }: { operation: Operation; linkToAgent: (agent: string) => string }) {
  const [isOpen, toggle] = useOpened(`${(operation.use ?? operation.result)?.uuid ?? ""} operation`);
  const tool = toolOf(operation.call);
  const line = lineOf(tool);
  return (
    <li className={operation.isError ? "failed" : ""}>
      <button type="button" className="operation" aria-expanded={isOpen} onClick={toggle} title={visible(line)}>
        <Icon of={tool.is} /> <b>{visible(operation.call.name)}</b> <span>{visible(line)}</span>
        {operation.isError && <em className="error">failed</em>}
        {operation.use && !operation.result && <em>no result</em>}
      </button>
      {operation.agents.map((first) => (
        <a key={first.uuid} className="strand-link" href={linkToAgent(first.agent_id ?? "")} onClick={follow}>
          ╰▶ open its strand
        </a>
      ))}
      {isOpen && <Viewer tool={tool} operation={operation} />}
    </li>
  );
}

/** What the tool was asked and what it gave, in the shape of its kind. */
function Viewer({ tool, operation }: { tool: Tool; operation: Operation }) {
  const key = (operation.use ?? operation.result)?.uuid ?? "";
  return (
    <div className="viewer">
      <Input tool={tool} id={key} />
      {operation.result && operation.result.content !== "" && (
        <div className={operation.isError ? "result error-result" : "result"}>
          <LongText text={operation.result.content} id={`${key} result`} as={tool.is === "agent" ? "markdown" : "plain"} />
        </div>
      )}
      {operation.result && <Attached result={operation.result} id={key} />}
    </div>
  );
}

/** Pictures and files that the tool gave back. */
function Attached({ result, id }: { result: TreeMessage; id: string }) {
  const { parts, exchange } = attachedTo(result);
  return parts.map((part, at) => (
    <Said key={at} part={part} behind={parts.slice(at + 1)} id={`${id} attached ${at}`} isUser={false} exchange={exchange} />
  ));
}

function Input({ tool, id }: { tool: Tool; id: string }) {
  switch (tool.is) {
    case "read":
      return (
        <p className="path">
          {visible(tool.path)} {tool.lines && <span className="quiet">lines {tool.lines}</span>}
        </p>
      );
    case "edit":
      return (
        <>
          <p className="path">{visible(tool.path)}</p>
          {tool.edits.map((edit, at) => (
            <Diff key={at} before={edit.before} after={edit.after} />
          ))}
        </>
      );
    case "write":
      return (
        <>
          <p className="path">{visible(tool.path)}</p>
          <LongText text={tool.text} id={`${id} written`} as="plain" />
        </>
      );
    case "shell":
      return (
        <>
          {tool.about && <p className="quiet">{visible(tool.about)}</p>}
          <pre className="plain command">$ {visible(tool.command)}</pre>
        </>
      );
    case "search":
      return (
        <p className="path">
          {visible(tool.pattern)} {tool.where && <span className="quiet">in {visible(tool.where)}</span>}
        </p>
      );
    case "web":
      return <p className="path">{visible(tool.what)}</p>;
    case "todo":
      return (
        <ul className="todo">
          {tool.items.map((item, at) => (
            <li key={at}>
              {item.state === "completed" ? "☑" : item.state === "in_progress" ? "◐" : "☐"} {visible(item.text)}
            </li>
          ))}
        </ul>
      );
    case "agent":
      return <p className="quiet">{visible(tool.task)}</p>;
    case "other":
      return <LongText text={tool.input} id={`${id} input`} as="plain" />;
  }
}
