import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Conversation } from "../api";
import { useKeys } from "../keys";
import { ConversationMenu } from "../parts/ConversationMenu";
import { Copy } from "../parts/Copy";
import { Empty, Failure, Loading } from "../parts/State";
import { age, dollars, exact, moment, short } from "../pure/format";
import { chipsOf, matches, readFilters } from "../pure/filters";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to, usePlace, withQuery } from "../router";
import { useNow } from "../time";

const ROW_PX = 44;
/** Rows before the end at which the next page is asked for. */
const AHEAD = 20;

export function Conversations() {
  const place = usePlace();
  const filters = useMemo(() => readFilters(place.query), [place.query]);
  const listed = useInfiniteQuery(
    queries.conversations({
      since: filters.since,
      until: null,
      ...(filters.model !== "" && { model: filters.model }),
      ...(filters.agent !== "" && { agent: filters.agent }),
      ...(filters.project !== "" && { project: filters.project }),
      ...(filters.cost > 0 && { cost: filters.cost }),
    }),
  );
  const agents = useInfiniteQuery(queries.agents);
  const live = useMemo(() => new Set(agents.data?.flatMap((agent) => (agent.status === "streaming" ? [agent.conversation_id] : []))), [agents.data]);
  const { hasNextPage, isFetching, fetchNextPage } = listed;
  const loaded = useMemo(() => listed.data?.pages.flatMap((page) => page.conversations) ?? [], [listed.data]);
  const rows = useMemo(() => loaded.filter((one) => matches(one, filters)), [loaded, filters]);
  const box = useRef<HTMLDivElement>(null);
  const search = useRef<HTMLInputElement>(null);
  const [current, setCurrent] = useState(-1);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    getItemKey: (at) => rows[at]?.conversation_id ?? at,
  });
  const shown = list.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  // Filters look through everything: pages come until the screen is full or there are no more.
  useEffect(() => {
    if (hasNextPage && !isFetching && last >= rows.length - AHEAD) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage, last, rows.length]);
  const move = (by: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, current + by));
    setCurrent(next);
    list.scrollToIndex(next);
  };
  const chosen = rows[current];
  useKeys([
    { key: "j", does: "next conversation", run: () => move(1) },
    { key: "k", does: "previous conversation", run: () => move(-1) },
    { key: "Enter", does: "open it", run: () => chosen && go(to.conversation(nameOf(chosen))) },
    { key: "/", does: "filter the list", run: () => search.current?.focus() },
  ]);
  const change = (changes: Record<string, string | null>) => go(withQuery(place, changes), "replace");
  return (
    <div className="page list-page">
      <div className="filters">
        <h1>Conversations</h1>
        <input
          ref={search}
          type="search"
          aria-label="Title or name"
          placeholder="Title or name"
          value={filters.text}
          onChange={(event) => change({ q: event.target.value })}
        />
        <details className="more-filters">
          <summary>Filter</summary>
          <div className="menu filter-menu">
            <label>
              since <input type="date" value={place.query.get("since") ?? ""} onChange={(event) => change({ since: event.target.value })} />
            </label>
            <label>
              until <input type="date" value={place.query.get("until") ?? ""} onChange={(event) => change({ until: event.target.value })} />
            </label>
            <label>
              from $ <input type="number" min="0" step="0.01" value={place.query.get("cost") ?? ""} onChange={(event) => change({ cost: event.target.value })} />
            </label>
            {(["model", "agent", "project"] as const).map((name) => (
              <label key={name}>
                {name} <input className="short" value={filters[name]} onChange={(event) => change({ [name]: event.target.value })} />
              </label>
            ))}
          </div>
        </details>
        {chipsOf(place.query).map(({ name, text }) => (
          <button key={name} type="button" className="chip" aria-label={`Without ${text}`} onClick={() => change(Object.fromEntries(name.split(" ").map((one) => [one, null])))}>
            {visible(text)} <span aria-hidden="true">✕</span>
          </button>
        ))}
        <span className="quiet" role="status">
          {rows.length.toLocaleString("en")}
          {hasNextPage ? "+" : ""} {filters.isAny ? "found" : ""}
        </span>
      </div>
      {listed.isPending && <Loading what="conversations" />}
      {listed.error && <Failure error={listed.error} retry={() => void listed.refetch()} />}
      {listed.isSuccess && rows.length === 0 && !hasNextPage && (
        <Empty command={filters.isAny ? "" : "ropewalk import ~/.claude/projects"}>
          {filters.isAny ? "No conversation is like this." : "Nothing is recorded yet."}
          {filters.text !== "" && (
            <>
              {" "}
              <a href={`/search?q=${encodeURIComponent(filters.text)}`} onClick={follow}>
                Search in what was said
              </a>
            </>
          )}
        </Empty>
      )}
      {rows.length > 0 && (
        <div className="scroll" ref={box} tabIndex={0} role="region" aria-label="List of conversations">
          <ul className="conversations" style={{ height: list.getTotalSize() }}>
            {shown.map((item) => {
              const row = rows[item.index];
              return (
                row && (
                  <li key={item.key} style={{ transform: `translateY(${item.start}px)` }} className={item.index === current ? "current" : ""}>
                    <Row row={row} isLive={live.has(row.conversation_id)} />
                  </li>
                )
              );
            })}
          </ul>
        </div>
      )}
    </div>
  );
}

function nameOf(one: Conversation): string {
  return one.friendly_id ?? one.conversation_id;
}

function Row({ row, isLive }: { row: Conversation; isLive: boolean }) {
  const now = useNow();
  const sent = row.tokens.input_tokens + row.tokens.cache_read_tokens + row.tokens.cache_write_tokens;
  return (
    <ConversationMenu conversation={row}>
      <a className="title" href={to.conversation(nameOf(row))} onClick={follow} dir="auto">
        {isLive && <i className="dot streaming" role="img" aria-label="live" />} {visible(row.title ?? "") || "(untitled)"}
      </a>
      <span className="under">
        {row.friendly_id && (
          <Copy className="id" label="Copy conversation reference" text={row.friendly_id}>
            {row.friendly_id}
          </Copy>
        )}
        {row.branches > 1 && <span>{row.branches} branches</span>}
        {row.agents > 1 && <span>{row.agents} agents</span>}
      </span>
      <span className="number wide-only" title={`${exact(row.turns)} turns, ${exact(row.exchanges)} exchanges`}>
        {short(row.turns)} {row.turns === 1 ? "turn" : "turns"}
      </span>
      <span className="number wide-only" title={`${exact(sent)} tokens in, ${exact(row.tokens.output_tokens)} out`}>
        {short(sent)}→{short(row.tokens.output_tokens)}
      </span>
      <span className="number" title={`$${exact(row.cost_usd)}`}>
        {dollars(row.cost_usd)}
      </span>
      <time className="number" dateTime={row.last_at} title={moment(row.last_at)}>
        {age(row.last_at, now)}
      </time>
    </ConversationMenu>
  );
}
