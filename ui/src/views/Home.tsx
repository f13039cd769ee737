import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { Agent, Conversation, Stats, Sums } from "../api";
import { Empty, Failure, Loading } from "../parts/State";
import { costByModel, heat, lastDays, perDay, weeks } from "../pure/days";
import { age, bytes, counted, dollars, exact, modelName, percent, short } from "../pure/format";
import { firstLine, visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, to } from "../router";
import { startOfToday, useNow } from "../time";

const WEEKS = 26;
const CHART_DAYS = 30;
const DAY_MS = 86_400_000;
const COLOURS = 8;

export default function Home() {
  const now = useNow();
  // Whole days, so that the question stays the same until midnight.
  const since = new Date(Date.parse(startOfToday(now)) - (WEEKS * 7 - 1) * DAY_MS).toISOString();
  const stats = useQuery(queries.stats(since));
  const agents = useInfiniteQuery(queries.agents);
  const newest = useInfiniteQuery(queries.conversations({ since: null, until: null }));
  const error = stats.error ?? newest.error;
  if (error) return <Failure error={error} retry={() => void Promise.all([stats.refetch(), newest.refetch()])} />;
  if (!stats.data || !newest.data) return <Loading what="the figures" />;
  const conversations = newest.data.pages[0]?.conversations ?? [];
  if (conversations.length === 0) {
    return <Empty command="ropewalk import ~/.claude/projects">Nothing is recorded yet. Point a client at this address, or import what it logged:</Empty>;
  }
  const live = new Set((agents.data ?? []).filter(isLive).map((agent) => agent.conversation_id));
  return (
    <div className="page home">
      <h1 className="off-screen">Home</h1>
      <Figures stats={stats.data} now={now} live={live.size} />
      {stats.data.is_cut_off && <p className="quiet">There is more than is added up here: the newest days may be missing.</p>}
      <div className="halves">
        <HeatMap stats={stats.data} now={now} />
        <CostChart stats={stats.data} now={now} />
      </div>
      <div className="halves">
        <Listed title="Newest" conversations={conversations.slice(0, 8)} live={live} now={now} />
        <Listed title="Dearest of the newest hundred" conversations={dearest(conversations)} live={live} now={now} />
      </div>
    </div>
  );
}

function isLive(agent: Agent): boolean {
  return agent.status === "streaming";
}

function dearest(conversations: Conversation[]): Conversation[] {
  return [...conversations].sort((a, b) => b.cost_usd - a.cost_usd).slice(0, 5);
}

const sent = (sums: Sums) => sums.input_tokens + sums.cache_read_tokens + sums.cache_write_tokens;

/** Six numbers: today's, with the last month as a line, or of everything where a day says nothing. */
function Figures({ stats, now, live }: { stats: Stats; now: number; live: number }) {
  const days = lastDays(now, CHART_DAYS);
  const cost = perDay(stats, days, (sums) => sums.cost_usd);
  const tokens = perDay(stats, days, (sums) => sent(sums) + sums.output_tokens);
  const read = perDay(stats, days, (sums) => sums.cache_read_tokens);
  const all = perDay(stats, days, sent);
  const saved = perDay(stats, days, (sums) => sums.reuse.saved_usd);
  const today = (values: number[]) => values.at(-1) ?? 0;
  const share = (values: number[], of: number[]) => values.map((value, at) => (of[at] ? value / of[at] : 0));
  const { storage } = stats;
  return (
    <ul className="figures">
      <Figure name="Cost today" value={dollars(today(cost))} title={`$${exact(today(cost))}`} line={cost} />
      <Figure name="Tokens today" value={short(today(tokens))} title={exact(today(tokens))} line={tokens} />
      <Figure
        name="From the cache today"
        value={today(all) === 0 ? "–" : percent(today(read) / today(all))}
        title={`${exact(today(read))} of ${exact(today(all))} tokens sent`}
        line={share(read, all)}
      />
      <Figure name="Saved by reuse" value={dollars(stats.total.reuse.saved_usd)} title={counted(stats.total.reuse.hits, "answer", "answers")} line={saved} />
      <Figure name="Live" value={String(live)} title="conversations with an agent that is answering" line={perDay(stats, days, (sums) => sums.exchanges)} />
      <Figure
        name="Stored"
        value={storage.ratio === null ? "–" : `1 : ${storage.ratio.toFixed(1)}`}
        title={`${bytes(storage.bytes_in)} came in, ${bytes(storage.stored_bytes)} are stored`}
        line={[]}
      />
    </ul>
  );
}

function Figure({ name, value, title, line }: { name: string; value: string; title: string; line: number[] }) {
  return (
    <li title={title}>
      <span className="quiet">{name}</span>
      <strong>{value}</strong>
      <Sparkline values={line} />
    </li>
  );
}

function Sparkline({ values }: { values: number[] }) {
  const largest = Math.max(...values, 0);
  if (largest === 0) return <span className="sparkline" />;
  const points = values.map((value, at) => `${((100 * at) / (values.length - 1)).toFixed(1)},${(23 - (21 * value) / largest).toFixed(1)}`);
  return (
    <svg className="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}

function HeatMap({ stats, now }: { stats: Stats; now: number }) {
  const days = lastDays(now, WEEKS * 7);
  const values = perDay(stats, days, (sums) => sums.exchanges);
  const largest = Math.max(...values);
  return (
    <section>
      <h2>Exchanges by day</h2>
      <div className="heat-map" role="group" aria-label="Days with exchanges; each leads to its conversations">
        {weeks(days, values).map((week, at) => (
          <div key={at}>
            {week.days.map((cell, row) => {
              if (cell === null) return <span key={row} className="cell" />;
              const told = `${cell.day}: ${counted(cell.value, "exchange", "exchanges")}`;
              if (cell.value === 0) return <span key={row} className="cell heat-0" title={told} />;
              const href = `/conversations?since=${cell.day}&until=${cell.day}`;
              return <a key={row} className={`cell heat-${heat(cell.value, largest)}`} href={href} onClick={follow} title={told} aria-label={told} />;
            })}
          </div>
        ))}
      </div>
    </section>
  );
}

function CostChart({ stats, now }: { stats: Stats; now: number }) {
  const days = lastDays(now, CHART_DAYS);
  const series = costByModel(stats, days, COLOURS);
  const totals = days.map((_, at) => series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0));
  const largest = Math.max(...totals);
  if (largest === 0) return <section><h2>Cost by model, {CHART_DAYS} days</h2><p className="quiet">Nothing was spent.</p></section>;
  return (
    <section>
      <h2>
        Cost by model, {CHART_DAYS} days <span className="quiet">up to {dollars(largest)} a day</span>
      </h2>
      <svg className="cost-chart" viewBox={`0 0 ${CHART_DAYS * 10} 100`} preserveAspectRatio="none" role="img" aria-label="Cost by model and day">
        {days.map((day, at) => {
          let below = 100;
          return series.map((one, which) => {
            const height = (100 * (one.values[at] ?? 0)) / largest;
            below -= height;
            return height === 0 ? null : (
              <rect key={day + one.model} x={at * 10 + 1} y={below} width={8} height={height} className={`fill-${which % COLOURS}`}>
                <title>{`${day} ${visible(one.model)}: ${dollars(one.values[at] ?? 0)}`}</title>
              </rect>
            );
          });
        })}
      </svg>
      <ul className="legend">
        {series.map((one, which) => (
          <li key={one.model}>
            <i className={`swatch fill-${which % COLOURS}`} /> {visible(modelName(one.model))} <span className="quiet">{dollars(one.total)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface Some {
  title: string;
  conversations: Conversation[];
  live: Set<string>;
  now: number;
}

function Listed({ title, conversations, live, now }: Some) {
  return (
    <section>
      <h2>{title}</h2>
      <ul className="brief">
        {conversations.map((one) => (
          <li key={one.conversation_id}>
            <i className={`dot ${live.has(one.conversation_id) ? "streaming" : "idle"}`} role="img" aria-label={live.has(one.conversation_id) ? "live" : "not live"} />
            <a href={to.conversation(one.friendly_id ?? one.conversation_id)} onClick={follow} dir="auto">
              {visible(firstLine(one.title ?? "", 90)) || "(untitled)"}
            </a>
            <span className="number" title={`$${exact(one.cost_usd)}`}>
              {dollars(one.cost_usd)}
            </span>
            <time className="number" dateTime={one.last_at}>
              {age(one.last_at, now)}
            </time>
          </li>
        ))}
      </ul>
    </section>
  );
}
