import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { Hit } from "../api";
import { useKeys } from "../keys";
import { More, type Paged } from "../parts/More";
import { Empty, Failure, Loading } from "../parts/State";
import { age, counted, modelName, moment } from "../pure/format";
import { marked } from "../pure/marked";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to, usePlace, withQuery } from "../router";
import { useNow } from "../time";

const SIDES = [
  ["", "anybody"],
  ["user", "you"],
  ["assistant", "assistant"],
  ["tool_input", "tool input"],
  ["tool_result", "tool result"],
] as const;

export function Search() {
  const place = usePlace();
  const query = place.query.get("q") ?? "";
  const by = place.query.get("by");
  const [typed, setTyped] = useState(query);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => setTyped(query), [query]);
  useKeys([{ key: "/", does: "type words to find", run: () => box.current?.focus() }]);
  return (
    <div className="page">
      <form
        className="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          go(withQuery(place, { q: typed.trim() }));
        }}
      >
        <h1>Search</h1>
        <input
          ref={box}
          autoFocus
          type="search"
          aria-label="Words to find"
          placeholder='Words that all occur, or a "phrase"'
          maxLength={1000}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
        <label>
          said by{" "}
          <select value={by ?? ""} onChange={(event) => go(withQuery(place, { by: event.target.value }))}>
            {SIDES.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="submit">Search</button>
      </form>
      {query === "" ? <Empty>Type words that were said; Enter finds them.</Empty> : <Hits query={query} by={by} />}
    </div>
  );
}

function Hits({ query, by }: { query: string; by: string | null }) {
  const found = useInfiniteQuery(queries.search({ query, said_by: by }));
  if (found.error) return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (found.isPending) return <Loading what="what was found" />;
  const hits = found.data.pages.flatMap((page) => page.hits);
  const waiting = found.data.pages.at(-1)?.not_searchable_yet ?? 0;
  return <Found hits={hits} waiting={waiting} query={query} found={found} />;
}

function Found({ hits, waiting, query, found }: { hits: Hit[]; waiting: number; query: string; found: Paged }) {
  const [current, setCurrent] = useState(-1);
  const list = useRef<HTMLOListElement>(null);
  const move = (by: number) => {
    const next = Math.max(0, Math.min(hits.length - 1, current + by));
    setCurrent(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const chosen = hits[current];
  const id = chosen?.friendly_id ?? chosen?.conversation_id;
  useKeys([
    { key: "j", does: "next hit", run: () => move(1) },
    { key: "k", does: "previous hit", run: () => move(-1) },
    { key: "Enter", does: "open it", run: () => chosen && id && go(to.conversation(id, { exchange: chosen.exchange_id })) },
  ]);
  return (
    <>
      {hits.length === 0 && <Empty>Nobody said this. Fewer words find more.</Empty>}
      {waiting > 0 && <p className="under">{counted(waiting, "text is", "texts are")} not searchable yet.</p>}
      <ol className="hits" ref={list}>
        {hits.map((hit, at) => (
          <li key={at} className={at === current ? "current" : ""}>
            <HitRow hit={hit} query={query} />
          </li>
        ))}
      </ol>
      <More asked={found} />
    </>
  );
}

function HitRow({ hit, query }: { hit: Hit; query: string }) {
  const now = useNow();
  const id = hit.friendly_id ?? hit.conversation_id;
  const side = SIDES.find(([value]) => value === hit.said_by)?.[1] ?? hit.said_by;
  return (
    <>
      <p className="under">
        {id === null ? <span>not linked yet</span> : (
          <a href={to.conversation(id, { exchange: hit.exchange_id })} onClick={follow}>
            {id}
          </a>
        )}
        <span>{side}</span>
        {hit.model && <span>{visible(modelName(hit.model))}</span>}
        <time dateTime={hit.at} title={moment(hit.at)}>
          {age(hit.at, now)}
        </time>
      </p>
      <p className="snippet" dir="auto">
        {marked(hit.snippet, query).map((piece, at) => (piece.isFound ? <mark key={at}>{visible(piece.text)}</mark> : visible(piece.text)))}
      </p>
    </>
  );
}
