import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { Agent } from "../api";
import { useKeys } from "../keys";
import { More } from "../parts/More";
import { Empty, Failure, Loading } from "../parts/State";
import { agentTree, type AgentNode } from "../pure/agents";
import { age, counted, dollars, exact, modelName, moment, percent, short } from "../pure/format";
import { firstLine, visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to } from "../router";
import { useNow } from "../time";

/** Who is done dims after a while. */
const DIM_AFTER_MS = 5 * 60_000;
const NEW_MS = 5_000;

export function Agents() {
  const listed = useInfiniteQuery(queries.agents);
  const newest = useInfiniteQuery(queries.conversations({ since: null, until: null }));
  // A conversation's first agent has no name of its own; what it works on says more.
  const titles = useMemo(() => {
    const conversations = newest.data?.pages.flatMap((page) => page.conversations) ?? [];
    return new Map(conversations.map((one) => [one.conversation_id, one.title ?? ""]));
  }, [newest.data]);
  const { known, orphans } = agentTree(listed.data ?? []);
  const nodes = [...known, ...orphans];
  const [current, setCurrent] = useState(-1);
  const chosen = nodes[current];
  const move = (by: number) => setCurrent(Math.max(0, Math.min(nodes.length - 1, current + by)));
  useKeys([
    { key: "j", does: "next agent", run: () => move(1) },
    { key: "k", does: "previous agent", run: () => move(-1) },
    { key: "Enter", does: "open its strand", run: () => chosen && go(linkTo(chosen.agent)) },
  ]);
  if (listed.error) return <Failure error={listed.error} retry={() => void listed.refetch()} />;
  if (listed.isPending) return <Loading what="agents" />;
  const group = (of: AgentNode[], offset: number) =>
    of.map((node, at) => {
      const { agent } = node;
      const title = agent.is_main ? (titles.get(agent.conversation_id) ?? "") : "";
      return <Row key={`${agent.conversation_id} ${agent.id}`} node={node} title={title} isCurrent={offset + at === current} />;
    });
  const streaming = nodes.filter(({ agent }) => agent.status === "streaming").length;
  return (
    <div className="page agents">
      <div className="filters">
        <h1>Agents</h1>
        <span className="quiet" role="status">
          {streaming} of {counted(nodes.length, "agent", "agents")} {streaming === 1 ? "is" : "are"} being answered
        </span>
      </div>
      {nodes.length === 0 && <Empty command="ropewalk run -- claude">No agent has run yet.</Empty>}
      {nodes.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>agent</th>
              <th className="wide-only">model</th>
              <th className="number wide-only">tokens in → out</th>
              <th className="wide-only">context</th>
              <th className="number">cost</th>
              <th className="number">age</th>
            </tr>
          </thead>
          <tbody>{group(known, 0)}</tbody>
          {orphans.length > 0 && (
            <tbody>
              <tr className="orphans">
                <th colSpan={6} scope="rowgroup">
                  Orphans <span className="quiet">started by somebody who was not recorded</span>
                </th>
              </tr>
              {group(orphans, known.length)}
            </tbody>
          )}
        </table>
      )}
      <More asked={listed} />
    </div>
  );
}

function linkTo(agent: Agent): string {
  return to.conversation(agent.conversation_id, agent.is_main && !agent.orphan ? {} : { agent: agent.id });
}

function Row({ node, title, isCurrent }: { node: AgentNode; title: string; isCurrent: boolean }) {
  const now = useNow();
  const { agent, depth } = node;
  // Only what came while the page was open slides in.
  const [isNew] = useState(() => Date.now() - Date.parse(agent.started_at) < NEW_MS);
  const isDone = agent.status !== "streaming" && now - Date.parse(agent.updated_at) > DIM_AFTER_MS;
  return (
    <tr className={`${isDone ? "done" : ""} ${isCurrent ? "current" : ""} ${isNew ? "new" : ""}`} data-status={agent.status}>
      <td className="agent" style={{ paddingInlineStart: `${8 + depth * 18}px` }}>
        {depth > 0 && (
          <span className="quiet" aria-hidden="true">
            ╰{" "}
          </span>
        )}
        <i className={`dot ${agent.status}`} role="img" aria-label={agent.status} title={agent.status} />{" "}
        <a href={linkTo(agent)} onClick={follow}>
          {visible(firstLine(title, 56) || (agent.name ?? (agent.is_main ? "main" : (agent.branch_id ?? "agent"))))}
        </a>{" "}
        {agent.status === "error" && <span className="error">failed </span>}
        {node.children > 0 && <span className="quiet">{counted(node.children, "child", "children")}</span>}
        {agent.orphan && (
          <span className="reason quiet">
            <span className="error">orphan</span>: it {visible(agent.orphan_reason ?? "has no known parent")}
          </span>
        )}
      </td>
      <td className="wide-only">{agent.model && <span title={visible(agent.model)}>{visible(modelName(agent.model))}</span>}</td>
      <td className="number wide-only" title={`${exact(agent.input_tokens)} in, ${exact(agent.output_tokens)} out`}>
        {short(agent.input_tokens)} → {short(agent.output_tokens)}
      </td>
      <td className="wide-only">
        <Fill agent={agent} />
      </td>
      <td className="number" title={`$${exact(agent.cost_usd)}`}>
        {dollars(agent.cost_usd)}
      </td>
      <td className="number">
        <time dateTime={agent.updated_at} title={moment(agent.updated_at)}>
          {age(agent.updated_at, now)}
        </time>
      </td>
    </tr>
  );
}

/** How full the context is; without a known window there is no bar, only what was sent. */
function Fill({ agent }: { agent: Agent }) {
  if (agent.context_fill === null) {
    const sent = agent.estimated_input_tokens;
    return sent === null ? null : (
      <span className="quiet" title={`${exact(sent)} tokens; how many fit is not known`}>
        {short(sent)}
      </span>
    );
  }
  return (
    <span className="fill" title={`${exact(agent.estimated_input_tokens ?? 0)} of ${exact(agent.max_input_tokens ?? 0)} tokens`}>
      <meter min={0} max={1} high={0.8} value={agent.context_fill} aria-label="Context fill" /> {percent(agent.context_fill)}
    </span>
  );
}
