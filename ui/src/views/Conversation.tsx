import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Fragment, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Agent, ContextChange, ConversationTree, Exchange, Merge, TreeMessage } from "../api";
import { useKeys } from "../keys";
import { Changed } from "../parts/Changed";
import { Copy, copyText } from "../parts/Copy";
import { Find } from "../parts/Find";
import { MessageList } from "../parts/MessageList";
import { RawExchange } from "../parts/RawExchange";
import { Sidechain } from "../parts/Sidechain";
import { Empty, Failure, Loading } from "../parts/State";
import { Strands, type Graph } from "../parts/Strands";
import { Title } from "../parts/Title";
import { subtreeCost } from "../pure/agents";
import { bytes, counted, dollars, exact, modelName, short } from "../pure/format";
import { Session, type Step } from "../pure/session";
import { firstLine, visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to, usePlace, withQuery } from "../router";
import { Sights } from "../sight";
import { keep, kept } from "../theme";

/** Three panes, two of them optional: strands, messages, and the sidechain. */
export function ConversationView({ id }: { id: string }) {
  const tree = useQuery(queries.conversation(id));
  const loaded = useInfiniteQuery(queries.messages(id));
  const named = useQuery(queries.names(id));
  const listed = useQuery(queries.exchanges(id));
  const { hasNextPage, isFetching, fetchNextPage } = loaded;
  useEffect(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  const pages = useGrown(loaded.data?.pages ?? NO_PAGES, !hasNextPage);
  const session = useMemo(() => new Session(pages.flatMap((page) => page.messages), named.data?.items ?? []), [pages, named.data]);
  const title = tree.data?.conversation.title;
  useEffect(() => {
    if (title) document.title = `${firstLine(title, 60)} · Ropewalk`;
  }, [title]);
  const error = tree.error ?? loaded.error ?? named.error;
  if (error) return <Failure error={error} retry={() => void Promise.all([tree.refetch(), loaded.refetch(), named.refetch()])} />;
  if (!tree.data || !loaded.data) return <Loading what="the conversation" />;
  const isSettled = named.isSuccess && !hasNextPage;
  return <Panes id={id} tree={tree.data} session={session} exchanges={listed.data?.items ?? NONE} isSettled={isSettled} />;
}

const NONE: Exchange[] = [];
const NO_MERGES: Merge[] = [];
const NO_PAGES: { messages: TreeMessage[] }[] = [];

/** Pages of a long conversation come one by one; the tree is made anew when there are twice as many, and at the end. */
function useGrown<T>(pages: T[], isAll: boolean): T[] {
  const [shown, setShown] = useState(pages);
  const isDue = pages !== shown && (isAll || pages.length < shown.length || pages.length >= shown.length * 2);
  if (isDue) setShown(pages);
  return isDue ? pages : shown;
}

interface Shown {
  id: string;
  tree: ConversationTree;
  session: Session;
  exchanges: Exchange[];
  isSettled: boolean;
}

function Panes({ id, tree, session, exchanges, isSettled }: Shown) {
  const place = usePlace();
  const target = useMemo(() => {
    const byExchange = session.answerOf(place.query.get("exchange") ?? "");
    return byExchange?.uuid ?? session.resolve(place.hash);
  }, [session, place.hash, place.query]);
  // Who comes to a message of an agent comes to that agent's strand.
  const agent = place.query.get("agent") ?? session.find(target ?? "")?.agent_id ?? null;
  const via = place.query.get("via") ?? target;
  const path = useMemo(() => session.path(agent, via), [session, agent, via]);
  const groups = useMemo(() => session.groups(path, agent), [session, path, agent]);
  const around = useQuery(queries.changes(id));
  const changes = useMemo(() => {
    const map = new Map<string, ContextChange[]>();
    for (const change of around.data?.changes ?? []) map.set(change.exchange_id, [...(map.get(change.exchange_id) ?? []), change]);
    return map;
  }, [around.data]);
  const [change, setChange] = useState<ContextChange | null>(null);
  /** Where several answers or prompts stand at one place, the exchanges of this one and of its neighbour. */
  const compareAt = (at: number): string | null => {
    const here = path[at];
    const where = here?.siblings.indexOf(here.message.uuid) ?? -1;
    const other = here?.siblings[where === 0 ? 1 : where - 1];
    if (!here || other === undefined) return null;
    const [a, b] = [session.exchangeAt(other), session.exchangeAt(here.message.uuid)];
    return a === null || b === null ? null : to.compare(a, b);
  };
  const isGraph = place.query.get("view") === "graph";
  const [panes, setPanes] = usePanes();
  // Looking for quotations reads everything that was said, so it waits until somebody sees them.
  const quoted = useQuery({ ...queries.merges(id), enabled: isGraph || panes.strands });
  const [sights] = useState(() => new Sights());
  const graph = useRef<Graph>(null);
  const exchangesOf = useCallback(
    (first: number, last: number) => new Set(path.slice(first, last + 1).flatMap((step) => session.exchangeAt(step.message.uuid) ?? [])),
    [path, session],
  );
  const saidIn = useCallback((exchange: string) => session.saidIn(exchange), [session]);
  const pending = exchanges.findLast((exchange) => exchange.status === "pending");
  const byId = useMemo(() => new Map(exchanges.map((exchange) => [exchange.id, exchange])), [exchanges]);
  const [current, setCurrent] = useState(() => Math.max(0, path.findIndex((step) => step.message.uuid === target)));
  const [wanted, setWanted] = useState<string | null>(null);
  // An exchange that is no message of the tree, as a summary, is shown as it was sent.
  const asked = place.query.get("exchange");
  const [raw, setRaw] = useState<string | null>(() => (asked !== null && !session.answerOf(asked) ? asked : null));
  const [isFinding, setFinding] = useState(false);
  const step = path[Math.min(current, path.length - 1)];

  useEffect(() => {
    const at = path.findIndex((step) => step.message.uuid === target);
    if (at >= 0) setCurrent(at);
  }, [path, target]);

  const select = (at: number) => {
    const next = path[Math.max(0, Math.min(path.length - 1, at))];
    if (!next) return;
    setCurrent(path.indexOf(next));
    go(withQuery(place, { exchange: null }, next.message.uuid), "replace");
  };
  const prompt = (by: 1 | -1) => {
    for (let at = current + by; at >= 0 && at < path.length; at += by) if (path[at]?.message.type === "user") return select(at);
  };
  const switchAt = (at: number, by: 1 | -1) => {
    const here = path[at];
    const other = here?.siblings[here.siblings.indexOf(here.message.uuid) + by];
    if (other) go(withQuery(place, { via: other, exchange: null }, other));
  };
  /** The nearest place above where there is something to switch. */
  const switchNear = (by: 1 | -1) => {
    for (let at = current; at >= 0; at -= 1) if ((path[at]?.siblings.length ?? 0) > 1) return switchAt(at, by);
  };
  const toTools = (uuid: string) => {
    setPanes({ ...panes, sidechain: true });
    setWanted(uuid);
  };
  const toExchange = (exchange: Exchange) => {
    const answer = session.answerOf(exchange.id);
    if (!answer) return setRaw(exchange.id);
    go(withQuery(place, { agent: answer.agent_id, via: answer.uuid, exchange: null, view: null }, answer.uuid));
  };
  const rawOf = (at: number) => {
    // A prompt came with the exchange of the answer below it.
    const found = path.slice(at).find((step) => step.message.exchange_id !== null);
    if (found) setRaw(found.message.exchange_id);
  };
  useKeys([
    { key: "j", does: isGraph ? "next exchange" : "next message", run: () => (isGraph ? graph.current?.move(1) : select(current + 1)) },
    { key: "k", does: isGraph ? "previous exchange" : "previous message", run: () => (isGraph ? graph.current?.move(-1) : select(current - 1)) },
    ...(isGraph
      ? [
          { key: "Enter", does: "read it", run: () => graph.current?.open() },
          { key: "+", does: "larger", run: () => graph.current?.zoom(1) },
          { key: "-", does: "smaller", run: () => graph.current?.zoom(-1) },
        ]
      : []),
    { key: "J", does: "next prompt", run: () => prompt(1) },
    { key: "K", does: "previous prompt", run: () => prompt(-1) },
    { key: "]", does: "next branch", run: () => switchNear(1) },
    { key: "[", does: "previous branch", run: () => switchNear(-1) },
    { key: "Alt+ArrowRight", does: "next branch", run: () => switchNear(1) },
    { key: "Alt+ArrowLeft", does: "previous branch", run: () => switchNear(-1) },
    { key: "g", does: "strands", run: () => setPanes({ ...panes, strands: !panes.strands }) },
    { key: "G", does: "all of the graph", run: () => go(withQuery(place, { view: isGraph ? null : "graph" })) },
    { key: "s", does: "sidechain", run: () => setPanes({ ...panes, sidechain: !panes.sidechain }) },
    { key: "y", does: "copy the message's reference", run: () => step?.names.reference && void copyText(step.names.reference) },
    { key: "o", does: "the exchange as it was sent", run: () => rawOf(current) },
    { key: "/", does: "find in the conversation", run: () => setFinding(true) },
  ]);

  if (session.messages.length === 0) return <Empty>Nothing was said here, or it cannot be read.</Empty>;
  const strands = (isWide: boolean) => (
    <Strands
      ref={graph}
      exchanges={exchanges}
      merges={quoted.data?.merges ?? NO_MERGES}
      currentExchange={step ? session.exchangeAt(step.message.uuid) : null}
      isWide={isWide}
      sights={sights}
      exchangesOf={exchangesOf}
      saidIn={saidIn}
      onPick={toExchange}
    />
  );
  return (
    <div className="conversation">
      <Head tree={tree} path={path} agent={agent} id={id} panes={panes} setPanes={setPanes} isGraph={isGraph} />
      {isFinding && <Find path={path} onGo={select} onClose={() => setFinding(false)} />}
      <div className="panes">
        {isGraph ? (
          strands(true)
        ) : (
          <>
            {panes.strands && strands(false)}
            <MessageList
              path={path}
              session={session}
              exchanges={byId}
              changes={changes}
              onChange={setChange}
              compareAt={compareAt}
              current={current}
              sights={sights}
              storageKey={`${id} ${agent ?? ""}`}
              hasTarget={target !== null}
              isSettled={isSettled}
              onSelect={select}
              onSwitch={switchAt}
              onTools={toTools}
              onRaw={rawOf}
            />
            {panes.sidechain && (
              <Sidechain
                session={session}
                groups={groups}
                wanted={wanted}
                linkToAgent={(agent) => to.conversation(id, { agent })}
                onCause={(uuid) => select(path.findIndex((step) => step.message.uuid === uuid))}
              />
            )}
          </>
        )}
      </div>
      {pending && <Answering exchange={pending} />}
      {change && <Changed id={id} change={change} onClose={() => setChange(null)} />}
      {raw && <RawExchange id={raw} onClose={() => setRaw(null)} />}
    </div>
  );
}

/** An answer that is coming in, and how much of it is there. */
function Answering({ exchange }: { exchange: Exchange }) {
  const { data } = useQuery(queries.delta(exchange.id));
  return (
    <p className="answering" role="status">
      <i className="dot streaming" /> {exchange.model ? visible(modelName(exchange.model)) : "somebody"} is answering
      {data !== undefined && `: ${bytes(data)} so far`}
    </p>
  );
}

interface Panes {
  strands: boolean;
  sidechain: boolean;
}

const PANES_KEY = "ropewalk.panes";
/** From this width on, all three panes have room. */
const STRANDS_PX = 1440;

/** Which panes are shown is the reader's habit, the same for all conversations. A narrow screen begins with none. */
function usePanes(): [Panes, (panes: Panes) => void] {
  const isWide = window.innerWidth >= 900;
  const [panes, setPanes] = useState<Panes>(() => {
    const usual = window.innerWidth >= STRANDS_PX ? "strands sidechain" : "sidechain";
    const chosen = isWide ? (kept(PANES_KEY) ?? usual) : "";
    return { strands: chosen.includes("strands"), sidechain: chosen.includes("sidechain") };
  });
  const change = (next: Panes) => {
    setPanes(next);
    keep(PANES_KEY, `${next.strands ? "strands" : ""} ${next.sidechain ? "sidechain" : ""}`);
  };
  return [panes, change];
}

interface HeadOf {
  tree: ConversationTree;
  path: Step[];
  agent: string | null;
  id: string;
  panes: Panes;
  setPanes: (panes: Panes) => void;
  isGraph: boolean;
}

function Head({ tree, path, agent, id, panes, setPanes, isGraph }: HeadOf) {
  const place = usePlace();
  const { conversation, branches } = tree;
  const shown = branches.find((branch) => branch.agent?.id === agent)?.agent;
  const above = ancestors(branches.flatMap((branch) => branch.agent ?? []), shown ?? null);
  const { tokens } = conversation;
  const sent = tokens.input_tokens + tokens.cache_read_tokens + tokens.cache_write_tokens;
  return (
    <div className="crumbs">
      <nav aria-label="Breadcrumbs">
        <a href="/conversations" onClick={follow}>
          Conversations
        </a>
        <span aria-hidden="true">›</span>
        {agent === null ? (
          <Title conversation={conversation} />
        ) : (
          <>
            <a href={to.conversation(id)} onClick={follow} dir="auto">
              {visible(firstLine(conversation.title ?? "", 40)) || "(untitled)"}
            </a>
            {above.map((parent) => (
              <Fragment key={parent.id}>
                <span aria-hidden="true">›</span>
                <a href={to.conversation(id, { agent: parent.id })} onClick={follow}>
                  {visible(parent.name ?? parent.id)}
                </a>
              </Fragment>
            ))}
            <span aria-hidden="true">›</span>
            <h1>{visible(shown?.name ?? agent)}</h1>
          </>
        )}
      </nav>
      {conversation.friendly_id && (
        <Copy className="id" label="Copy conversation reference" text={conversation.friendly_id}>
          {conversation.friendly_id}
        </Copy>
      )}
      <span className="spring" />
      <Costs tree={tree} path={path} agent={agent} />
      <span className="quiet wide-only" title={`${exact(sent)} tokens in, ${exact(tokens.output_tokens)} out, $${exact(conversation.cost_usd)}`}>
        {counted(conversation.turns, "turn", "turns")} · {short(sent)}→{short(tokens.output_tokens)} · {dollars(conversation.cost_usd)}
      </span>
      <button type="button" aria-pressed={isGraph} onClick={() => go(withQuery(place, { view: isGraph ? null : "graph" }))}>
        Graph
      </button>
      <button type="button" className="wide-only" disabled={isGraph} aria-pressed={panes.strands && !isGraph} onClick={() => setPanes({ ...panes, strands: !panes.strands })}>
        Strands
      </button>
      <button type="button" disabled={isGraph} aria-pressed={panes.sidechain && !isGraph} onClick={() => setPanes({ ...panes, sidechain: !panes.sidechain })}>
        Sidechain
      </button>
    </div>
  );
}

/** Who started an agent, and who started that one, the first first; the main agent is the conversation itself. */
function ancestors(agents: Agent[], of: Agent | null): Agent[] {
  const above: Agent[] = [];
  for (let at = of; at; ) {
    const parent: Agent | undefined = agents.find((one) => one.id === at?.parent_id);
    if (!parent || parent.is_main || above.includes(parent)) break;
    above.unshift(parent);
    at = parent;
  }
  return above;
}

/** What the path that is shown cost, and an agent with everybody it started. */
function Costs({ tree, path, agent }: { tree: ConversationTree; path: Step[]; agent: string | null }) {
  const cost = path.reduce((sum, step) => sum + (step.message.cost_usd ?? 0), 0);
  const tokens = path.reduce((sum, step) => sum + (step.message.usage?.output_tokens ?? 0), 0);
  const agents = tree.branches.flatMap((branch) => branch.agent ?? []);
  const below = agent === null ? 0 : subtreeCost(agents, agent);
  return (
    <span className="quiet wide-only" title={`this path: $${exact(cost)}, ${exact(tokens)} tokens out`}>
      path {dollars(cost)}
      {below > cost && <> · with its agents {dollars(below)}</>}
    </span>
  );
}
