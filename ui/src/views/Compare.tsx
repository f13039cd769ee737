import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { DiffSide, StoredAnswer } from "../api";
import { Diff } from "../parts/Diff";
import { LongText } from "../parts/Said";
import { Empty, Failure, Loading } from "../parts/State";
import { counted, dollars, duration, exact, modelName, moment, percent, short } from "../pure/format";
import { withoutCalls } from "../pure/tools";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to, usePlace } from "../router";

/** Two branches from where they part, or all answers to one input, side by side. */
export default function Compare() {
  const place = usePlace();
  const [a, b, input] = ["a", "b", "to"].map((name) => place.query.get(name) ?? "");
  return (
    <div className="page compare">
      <Choose key={`${a} ${b} ${input}`} a={a ?? ""} b={b ?? ""} input={input ?? ""} />
      {a && b ? (
        <Sides a={a} b={b} />
      ) : input ? (
        <Answers input={input} />
      ) : (
        <Empty>
          Name two branches or exchanges, or one exchange for all answers to its input. In a conversation, “compare” beside “2 of 3” leads here.
        </Empty>
      )}
    </div>
  );
}

function Choose({ a, b, input }: { a: string; b: string; input: string }) {
  const [names, setNames] = useState({ a: a || input, b });
  const submit = () => go(names.b.trim() === "" ? to.answers(names.a.trim()) : to.compare(names.a.trim(), names.b.trim()));
  return (
    <form
      className="filters"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <h1>Compare</h1>
      <label>
        this <input required value={names.a} onChange={(event) => setNames({ ...names, a: event.target.value })} />
      </label>
      <label>
        with <input value={names.b} placeholder="all answers to it" onChange={(event) => setNames({ ...names, b: event.target.value })} />
      </label>
      <button type="submit">Compare</button>
    </form>
  );
}

function Sides({ a, b }: { a: string; b: string }) {
  const asked = useQuery(queries.diff(a, b));
  if (asked.error) return <Failure error={asked.error} retry={() => void asked.refetch()} />;
  if (asked.isPending) return <Loading what="both branches" />;
  const { common, context_differs: differs, files } = asked.data;
  const said = (side: DiffSide) => side.messages.map((message) => `${message.type}:\n${message.content}`).join("\n\n");
  return (
    <>
      <p className="under">
        <span>{counted(common.messages, "message is", "messages are")} common</span>
        {differs.length > 0 && <span>beside what was said, other: {differs.join(", ")}</span>}
        {files.length > 0 && <span>{counted(files.length, "file", "files")} touched</span>}
      </p>
      <div className="sides">
        {[asked.data.a, asked.data.b].map((side, at) => (
          <section key={at} aria-label={at === 0 ? "First" : "Second"}>
            <SideHead side={side} />
            {side.messages.map((message) => (
              <article key={message.uuid} className={`message ${message.type}`}>
                <h3>{message.type === "user" ? "You" : message.type === "assistant" ? "Assistant" : message.type.replace("_", " ")}</h3>
                <Content text={message.content} id={`compare ${message.uuid}`} isMarked={message.type === "assistant"} />
              </article>
            ))}
            {side.messages.length === 0 && <p className="quiet">It ends where they part.</p>}
            {side.messages_left_out > 0 && <p className="quiet">{counted(side.messages_left_out, "more message", "more messages")}</p>}
          </section>
        ))}
      </div>
      <h2>Difference</h2>
      <Diff before={said(asked.data.a)} after={said(asked.data.b)} isWhole={false} />
      {files.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>file</th>
              <th>first</th>
              <th>second</th>
            </tr>
          </thead>
          <tbody>
            {files.map((file) => (
              <tr key={file.path}>
                <td className="path">{visible(file.path)}</td>
                <td>{file.a ?? "–"}</td>
                <td>{file.b ?? "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** What was said, and below it a quiet line for each call of a tool. */
function Content({ text, id, isMarked }: { text: string; id: string; isMarked: boolean }) {
  const { said, calls } = isMarked ? withoutCalls(text) : { said: text, calls: [] };
  return (
    <>
      {said !== "" && <LongText text={said} id={id} as={isMarked ? "markdown" : "plain"} />}
      {calls.map((call, at) => (
        <p key={at} className="quiet call">
          ▸ {visible(call)}
        </p>
      ))}
    </>
  );
}

function SideHead({ side }: { side: DiffSide }) {
  const { sums } = side;
  const sent = sums.input_tokens + sums.cache_read_tokens + sums.cache_write_tokens;
  const id = side.friendly_id ?? side.conversation_id;
  return (
    <header>
      <h2>
        {id === null ? visible(side.exchange_id) : (
          <a href={to.conversation(id, { exchange: side.exchange_id })} onClick={follow}>
            {visible(side.branch_id ?? id)}
          </a>
        )}
      </h2>
      <p className="under">
        {side.model && <span>{visible(modelName(side.model))}</span>}
        <span title={`${exact(sent)} tokens in, ${exact(sums.output_tokens)} out`}>
          {short(sent)}→{short(sums.output_tokens)}
        </span>
        <Cached read={sums.cache_read_tokens} sent={sent} />
        <span title={`$${exact(sums.cost_usd)}`}>{dollars(sums.cost_usd)}</span>
        <span title={`${exact(sums.latency_ms)} ms`}>{duration(sums.latency_ms)}</span>
      </p>
    </header>
  );
}

function Cached({ read, sent }: { read: number; sent: number }) {
  if (read === 0 || sent === 0) return <span>no cache</span>;
  return (
    <span className="reused" title={`${exact(read)} of ${exact(sent)} tokens came from the provider's cache`}>
      {percent(read / sent)} cached
    </span>
  );
}

function Answers({ input }: { input: string }) {
  const asked = useQuery(queries.answers(input));
  if (asked.error) return <Failure error={asked.error} retry={() => void asked.refetch()} />;
  if (asked.isPending) return <Loading what="all answers" />;
  const { answers, answers_left_out: leftOut } = asked.data;
  const [first] = answers;
  if (!first) return <Empty>Nobody answered this.</Empty>;
  return (
    <>
      <p className="under">
        {counted(answers.length, "answer", "answers")} to one input{leftOut > 0 && `, ${exact(leftOut)} more are not shown`}
      </p>
      <div className="sides answers">
        {answers.map((answer, at) => (
          <section key={answer.exchange_id} aria-label={`Answer ${at + 1}`}>
            <AnswerHead answer={answer} />
            <Content text={answer.content} id={`answer ${answer.exchange_id}`} isMarked />
            {at > 0 && (
              <details>
                <summary>against the first</summary>
                <Diff before={first.content} after={answer.content} isWhole={false} />
              </details>
            )}
          </section>
        ))}
      </div>
    </>
  );
}

function AnswerHead({ answer }: { answer: StoredAnswer }) {
  const { usage } = answer;
  const sent = (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
  const options = Object.entries(answer.options).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return (
    <header>
      <h2>{answer.model ? visible(modelName(answer.model)) : "unknown model"}</h2>
      <p className="under">
        <time dateTime={answer.at}>{moment(answer.at)}</time>
        {answer.reuse === "hit" && <span className="reused">reused</span>}
        <span title={`${exact(sent)} tokens in, ${exact(usage.output_tokens ?? 0)} out`}>
          {short(sent)}→{short(usage.output_tokens ?? 0)}
        </span>
        <Cached read={usage.cache_read_tokens ?? 0} sent={sent} />
        {answer.cost_usd !== null && <span title={`$${exact(answer.cost_usd)}`}>{dollars(answer.cost_usd)}</span>}
        {answer.latency_ms !== null && <span title={`${exact(answer.latency_ms)} ms`}>{duration(answer.latency_ms)}</span>}
        {answer.differs.length > 0 && <span className="error">other {answer.differs.join(", ")}</span>}
      </p>
      {options.length > 0 && <p className="quiet options">{visible(options.join(", "))}</p>}
    </header>
  );
}
