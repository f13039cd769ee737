import { useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import type { Agent, CacheStats, Conversation, Stats, Sums } from "../api";
import { Chart, Legend } from "../parts/Chart";
import { Empty, Failure, Loading } from "../parts/State";
import { CAUSE_IN_WORDS } from "../pure/causes";
import { costByModel, heat, lastDays, monthsOf, perDay, weeks } from "../pure/days";
import { age, bytes, counted, dollars, exact, modelName, moment, percent, short } from "../pure/format";
import { firstLine, visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to, usePlace, withQuery } from "../router";
import { startOfToday, useNow } from "../time";

const WEEKS = 26;
const PERIODS = [7, 30, 90];
const DAY_MS = 86_400_000;
const COLOURS = 8;
const DEAREST = 5;
const CAUSES = 5;

export default function Home() {
  const place = usePlace();
  const now = useNow();
  const count = PERIODS.find((one) => String(one) === place.query.get("days")) ?? 30;
  // Whole days, so that the question stays the same until midnight.
  const daysAgo = (days: number) => new Date(Date.parse(startOfToday(now)) - (days - 1) * DAY_MS).toISOString();
  const stats = useQuery(queries.stats(daysAgo(WEEKS * 7)));
  const agents = useInfiniteQuery(queries.agents);
  const newest = useInfiniteQuery(queries.conversations({ since: null, until: null }));
  const error = stats.error ?? newest.error;
  if (error) return <Failure error={error} retry={() => void Promise.all([stats.refetch(), newest.refetch()])} />;
  if (!stats.data || !newest.data) return <Loading what="the figures" />;
  const conversations = newest.data.pages[0]?.conversations ?? [];
  if (conversations.length === 0) {
    return <Empty command="ropewalk run -- claude">Nothing is recorded yet. This runs a client whose calls are:</Empty>;
  }
  const live = new Set((agents.data ?? []).filter(isLive).map((agent) => agent.conversation_id));
  const days = lastDays(now, count);
  return (
    <div className="page home">
      <div className="filters">
        <h1>Home</h1>
        {PERIODS.map((one) => (
          <button key={one} type="button" aria-pressed={one === count} onClick={() => go(withQuery(place, { days: one === 30 ? null : String(one) }), "replace")}>
            {one} days
          </button>
        ))}
      </div>
      <Figures stats={stats.data} days={days} live={(agents.data ?? []).filter(isLive).length} />
      {stats.data.is_cut_off && <p className="quiet">There is more than is added up here: the newest days may be missing.</p>}
      <div className="halves">
        <CostChart stats={stats.data} days={days} />
        <HeatMap stats={stats.data} now={now} />
      </div>
      <div className="halves">
        <Listed title="Newest" conversations={conversations.slice(0, 8)} live={live} now={now} />
        <div>
          <Dearest since={daysAgo(count)} days={count} live={live} now={now} />
          <Causes since={daysAgo(count)} days={count} />
        </div>
      </div>
    </div>
  );
}

function isLive(agent: Agent): boolean {
  return agent.status === "streaming";
}

/** The conversations that cost most in the period, whenever they began. */
function Dearest({ since, days, live, now }: { since: string; days: number; live: Set<string>; now: number }) {
  const summed = useQuery(queries.statsBy(since, "conversation", DEAREST));
  const ids = Object.entries(summed.data?.by ?? {})
    .filter(([, sums]) => sums.cost_usd > 0)
    .sort(([, a], [, b]) => b.cost_usd - a.cost_usd);
  const found = useQueries({ queries: ids.map(([id]) => queries.conversation(id)) });
  const title = `Dearest, ${days} days`;
  if (summed.error) return <Failure error={summed.error} retry={() => void summed.refetch()} />;
  const conversations = found.flatMap((one, at) => (one.data ? [{ ...one.data.conversation, cost_usd: ids[at]?.[1].cost_usd ?? 0 }] : []));
  if (summed.data && ids.length === 0) {
    return (
      <section>
        <h2>{title}</h2>
        <p className="quiet">Nothing was spent.</p>
      </section>
    );
  }
  return <Listed title={title} conversations={conversations} live={live} now={now} />;
}

/** What broke the cache, in money; each cause leads to its evidence. */
function Causes({ since, days }: { since: string; days: number }) {
  const asked = useQuery(queries.cacheStats(since));
  return (
    <section>
      <h2>
        What broke the cache, {days} days{" "}
        {asked.data && asked.data.lost_usd > 0 && (
          <span className="quiet" title={`$${exact(asked.data.lost_usd)}`}>
            {dollars(asked.data.lost_usd)} lost
          </span>
        )}
      </h2>
      {asked.error && <Failure error={asked.error} retry={() => void asked.refetch()} />}
      {asked.isPending && <Loading what="causes" />}
      {asked.data && <Lost stats={asked.data} days={days} />}
    </section>
  );
}

function Lost({ stats, days }: { stats: CacheStats; days: number }) {
  if (stats.causes.length === 0) return <p className="quiet">Nothing did, or no provider said what its cache gave.</p>;
  const most = Math.max(...stats.causes.map((cause) => cause.lost_usd));
  return (
    <ul className="brief causes">
      {stats.causes.slice(0, CAUSES).map((cause) => (
        <li key={cause.cause}>
          <a href={`/insight?days=${days}&cause=${cause.cause}`} onClick={follow}>
            {CAUSE_IN_WORDS[cause.cause]}
          </a>
          <span className="bar-of" aria-hidden="true">
            <i style={{ width: `${most > 0 ? (100 * cause.lost_usd) / most : 0}%` }} />
          </span>
          <span className="number quiet" title={`${exact(cause.turns)} turns, ${exact(cause.lost_tokens)} tokens`}>
            {counted(cause.turns, "turn", "turns")}
          </span>
          <span className="number" title={`$${exact(cause.lost_usd)}`}>
            {dollars(cause.lost_usd)}
          </span>
        </li>
      ))}
    </ul>
  );
}

const sent = (sums: Sums) => sums.input_tokens + sums.cache_read_tokens + sums.cache_write_tokens;

/** Six numbers: today's, with the days before as a line, or of everything where a day says nothing. */
function Figures({ stats, days, live }: { stats: Stats; days: string[]; live: number }) {
  const cost = perDay(stats, days, (sums) => sums.cost_usd);
  const tokens = perDay(stats, days, (sums) => sent(sums) + sums.output_tokens);
  const read = perDay(stats, days, (sums) => sums.cache_read_tokens);
  const all = perDay(stats, days, sent);
  const saved = perDay(stats, days, (sums) => sums.reuse.saved_usd);
  const exchanges = perDay(stats, days, (sums) => sums.exchanges);
  const came = days.map((day) => stats.bytes_by_day[day] ?? 0);
  const today = (values: number[]) => values.at(-1) ?? 0;
  // A day on which nothing was sent has no share.
  const share = (values: number[], of: number[]) => values.map((value, at) => (of[at] ? value / of[at] : null));
  const { storage } = stats;
  const usd = (value: number) => `$${exact(value)}`;
  return (
    <ul className="figures">
      <Figure name="Cost today" value={dollars(today(cost))} title={usd(today(cost))} line={cost} days={days} told={usd} />
      <Figure name="Tokens today" value={short(today(tokens))} title={exact(today(tokens))} line={tokens} days={days} told={(value) => `${exact(value)} tokens`} />
      <Figure
        name="Cached today"
        value={today(all) === 0 ? "–" : percent(today(read) / today(all))}
        title={`${exact(today(read))} of ${exact(today(all))} tokens sent`}
        line={share(read, all)}
        days={days}
        told={(value) => `${percent(value)} from the cache`}
      />
      <Figure
        name="Saved by reuse"
        value={dollars(stats.total.reuse.saved_usd)}
        title={`${usd(stats.total.reuse.saved_usd)}, ${counted(stats.total.reuse.hits, "answer", "answers")}`}
        line={saved}
        days={days}
        told={(value) => `${usd(value)} saved`}
      />
      <Figure name="Live agents" value={String(live)} title="agents that are being answered now; the line is exchanges by day" line={exchanges} days={days} told={(value) => counted(value, "exchange", "exchanges")} />
      <Figure
        name="Stored"
        value={storage.ratio === null ? "–" : `1 : ${storage.ratio.toFixed(1)}`}
        title={`${bytes(storage.bytes_in)} came in, ${bytes(storage.stored_bytes)} are stored; the line is what came by day`}
        line={came}
        days={days}
        told={(value) => `${bytes(value)} came in`}
      />
    </ul>
  );
}

interface Figured {
  name: string;
  value: string;
  title: string;
  line: (number | null)[];
  days: string[];
  told: (value: number) => string;
}

function Figure({ name, value, title, line, days, told }: Figured) {
  return (
    <li>
      <span className="quiet">{name}</span>
      <strong title={title}>{value}</strong>
      <Sparkline values={line} days={days} told={told} />
    </li>
  );
}

function Sparkline({ values, days, told }: { values: (number | null)[]; days: string[]; told: (value: number) => string }) {
  const largest = Math.max(...values.map((value) => value ?? 0), 0);
  if (largest === 0) return <span className="sparkline none" />;
  const width = 100 / values.length;
  const points = values.flatMap((value, at) => (value === null ? [] : [`${((at + 0.5) * width).toFixed(1)},${(23 - (21 * value) / largest).toFixed(1)}`]));
  return (
    <svg className="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(" ")} />
      {values.map((value, at) => (
        <rect key={days[at]} x={at * width} y={0} width={width} height={24}>
          <title>{`${days[at] ?? ""}: ${value === null ? "nothing" : told(value)}`}</title>
        </rect>
      ))}
    </svg>
  );
}

const WEEKDAYS = ["Mon", "", "Wed", "", "Fri", "", ""];

function HeatMap({ stats, now }: { stats: Stats; now: number }) {
  const days = lastDays(now, WEEKS * 7);
  const values = perDay(stats, days, (sums) => sums.exchanges);
  const largest = Math.max(...values);
  const columns = weeks(days, values);
  return (
    <section>
      <h2>
        Exchanges by day <span className="quiet">{counted(values.reduce((sum, value) => sum + value, 0), "exchange", "exchanges")} in {WEEKS} weeks</span>
      </h2>
      <div className="heat-map">
        <div className="heat-days quiet" aria-hidden="true">
          <span />
          {WEEKDAYS.map((name, at) => (
            <span key={at}>{name}</span>
          ))}
        </div>
        <div className="heat-weeks" role="group" aria-label="Days with exchanges; each leads to its conversations">
          {columns.map((week, at) => (
            <div key={at}>
              <span className="heat-month quiet" aria-hidden="true">
                {monthsOf(columns)[at]}
              </span>
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
      </div>
      <p className="heat-legend quiet" aria-hidden="true">
        fewer {[0, 1, 2, 3, 4].map((level) => <i key={level} className={`cell heat-${level}`} />)} more
      </p>
    </section>
  );
}

function CostChart({ stats, days }: { stats: Stats; days: string[] }) {
  const series = costByModel(stats, days, COLOURS).map(({ model, values }) => ({ name: modelName(model), values }));
  const total = series.reduce((sum, one) => sum + one.values.reduce((all, value) => all + value, 0), 0);
  return (
    <section>
      <h2>
        Cost by model, {days.length} days <span className="quiet" title={`$${exact(total)}`}>{dollars(total)}</span>
      </h2>
      {total === 0 ? (
        <p className="quiet">Nothing was spent.</p>
      ) : (
        <>
          <Chart
            label="Cost by model and day"
            days={days}
            series={series}
            short={dollars}
            exact={(value) => `$${exact(Number(value.toPrecision(6)))}`}
            onDay={(day) => go(`/conversations?since=${day}&until=${day}`)}
          />
          <Legend series={series} short={dollars} />
        </>
      )}
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
            <time className="number" dateTime={one.last_at} title={moment(one.last_at)}>
              {age(one.last_at, now)}
            </time>
          </li>
        ))}
      </ul>
    </section>
  );
}
