import { Fragment, memo, useMemo, type ReactNode } from "react";
import { highlight } from "../pure/highlight";
import { parse, type Block, type Inline } from "../pure/markdown";
import { visible } from "../pure/visible";

/** Above this a text is shown as it is: nobody reads the marks of a text of this length, and finding them takes long. */
const MARKDOWN_CHARS_MAX = 50_000;

/** What a model or a person wrote. Only the elements below can come out of it. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => (text.length > MARKDOWN_CHARS_MAX ? null : parse(text)), [text]);
  if (blocks === null) return <pre className="plain">{visible(text)}</pre>;
  return (
    <div className="markdown" dir="auto">
      {blocks.map(blockOf)}
    </div>
  );
});

function blockOf(block: Block, key: number): ReactNode {
  switch (block.is) {
    case "paragraph":
      return <p key={key}>{block.inside.map(inlineOf)}</p>;
    case "heading":
      // The page has headings of its own; those of a text are no part of its outline.
      return (
        <p key={key} className={`heading heading-${block.level}`}>
          {block.inside.map(inlineOf)}
        </p>
      );
    case "code":
      return (
        <pre key={key} className="code" tabIndex={0} aria-label={`Code ${visible(block.language)}`}>
          <code>
            {highlight(block.text, block.language).map((piece, at) => (piece.is === "plain" ? visible(piece.text) : <span key={at} className={`code-${piece.is}`}>{visible(piece.text)}</span>))}
          </code>
        </pre>
      );
    case "list": {
      const items = block.items.map((item, at) => <li key={at}>{item.map(tight)}</li>);
      return block.ordered ? (
        <ol key={key} start={block.start}>
          {items}
        </ol>
      ) : (
        <ul key={key}>{items}</ul>
      );
    }
    case "quote":
      return <blockquote key={key}>{block.blocks.map(blockOf)}</blockquote>;
    case "table":
      return (
        <div key={key} className="table" tabIndex={0} role="group" aria-label="Table">
          <table>
            <thead>
              <tr>
                {block.head.map((cell, at) => (
                  <th key={at}>{cell.length > 0 ? cell.map(inlineOf) : <span className="off-screen">column {at + 1}</span>}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {block.rows.map((row, at) => (
                <tr key={at}>
                  {row.map((cell, column) => (
                    <td key={column}>{cell.map(inlineOf)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case "rule":
      return <hr key={key} />;
  }
}

/** A paragraph that is all of an item needs no space around it. */
function tight(block: Block, key: number): ReactNode {
  return block.is === "paragraph" ? <Fragment key={key}>{block.inside.map(inlineOf)}</Fragment> : blockOf(block, key);
}

function inlineOf(inline: Inline, key: number): ReactNode {
  switch (inline.is) {
    case "text":
      return visible(inline.text);
    case "code":
      return <code key={key}>{visible(inline.text)}</code>;
    case "strong":
      return <strong key={key}>{inline.inside.map(inlineOf)}</strong>;
    case "em":
      return <em key={key}>{inline.inside.map(inlineOf)}</em>;
    case "del":
      return <del key={key}>{inline.inside.map(inlineOf)}</del>;
    case "link":
      return (
        <a key={key} href={inline.href} target="_blank" rel="noopener noreferrer nofollow" title={inline.href}>
          {inline.inside.map(inlineOf)}
        </a>
      );
  }
}
