import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Fragment, useState, type ReactNode } from "react";
import type { CacheStats, Stats, Waste } from "../api";
import { Chart, Legend } from "../parts/Chart";
import { CacheReportOf } from "../parts/CacheReport";
import { Diff } from "../parts/Diff";
import { More, type Paged } from "../parts/More";
import { RawExchange } from "../parts/RawExchange";
import { Failure, Loading } from "../parts/State";
import { CAUSE_IN_WORDS } from "../pure/causes";
import { lastDays, perDay } from "../pure/days";
import { counted, dollars, exact, moment, percent, short } from "../pure/format";
import { firstLine, visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, go, to, usePlace, withQuery } from "../router";
import { startOfToday, useNow } from "../time";

const PERIODS = [7, 30, 90];
const DAY_MS = 86_400_000;

/** Ranked tables first, charts second; each row leads to its evidence. */
export default function Insight() {
  const place = usePlace();
  const now = useNow();
  const days = PERIODS.find((one) => String(one) === place.query.get("days")) ?? 30;
  const since = new Date(Date.parse(startOfToday(now)) - (days - 1) * DAY_MS).toISOString();
  return (
    <div className="page insight">
      <div className="filters">
        <h1>Insight</h1>
        {PERIODS.map((one) => (
          <button key={one} type="button" aria-pressed={one === days} onClick={() => go(withQuery(place, { days: String(one) }))}>
            {one} days
          </button>
        ))}
      </div>
      <Section title="What broke the cache" asked={useQuery(queries.cacheStats(since))} what="causes">
        {(stats) => <Causes stats={stats} />}
      </Section>
      <Section title="Sent again and again" asked={useInfiniteQuery(queries.waste)} what="what is repeated">
        {(waste) => <Repeats waste={waste} />}
      </Section>
      <Section title="Cache over time" asked={useQuery(queries.stats(since))} what="days">
        {(stats) => <Hits stats={stats} now={now} days={days} />}
      </Section>
      <TimelineOf of={place.query.get("of") ?? ""} />
      <Section title="Nearly the same conversations" asked={useInfiniteQuery(queries.nearDuplicates)} what="pairs">
        {(pairs) =>
          pairs.length === 0 ? (
            <p className="quiet">None are alike.</p>
          ) : (
            <table>
              <tbody>
                {pairs.map((pair) => (
                  <tr key={`${pair.a.conversation_id} ${pair.b.conversation_id}`}>
                    <td className="number">{percent(pair.score)}</td>
                    <td>{pair.kind.replaceAll("_", " ")}</td>
                    <td>
                      {[pair.a, pair.b].map((one) => (
                        <p key={one.conversation_id}>
                          <a href={to.conversation(one.friendly_id ?? one.conversation_id)} onClick={follow} dir="auto">
                            {visible(firstLine(one.title ?? "", 80)) || "(untitled)"}
                          </a>
                        </p>
                      ))}
                    </td>
                    <td className="wide-only quiet">{visible(firstLine(pair.excerpt, 80))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Section>
      <Section title="Prompts that recur" asked={useInfiniteQuery(queries.templates)} what="templates">
        {(templates) =>
          templates.length === 0 ? (
            <p className="quiet">No prompt recurs.</p>
          ) : (
            <table>
              <tbody>
                {templates.map((template) => (
                  <tr key={template.text}>
                    <td className="number">{template.times} ×</td>
                    <td className="template" dir="auto">
                      {visible(firstLine(template.text, 240))}
                      {template.places.map((place, at) => (
                        <p key={at} className="quiet">
                          {`{${at + 1}}`} {visible(place.values.slice(0, 4).join(" · "))}
                        </p>
                      ))}
                    </td>
                    <td className="number">{counted(template.conversations, "conversation", "conversations")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Section>
    </div>
  );
}

interface Asked<T> {
  title: string;
  what: string;
  asked: { data: T | undefined; error: Error | null; refetch: () => Promise<unknown> } & Partial<Paged>;
  children: (data: T) => ReactNode;
}

function Section<T>({ title, what, asked, children }: Asked<T>) {
  return (
    <section>
      <h2>{title}</h2>
      {asked.error ? <Failure error={asked.error} retry={() => void asked.refetch()} /> : asked.data === undefined ? <Loading what={what} /> : children(asked.data)}
      <More asked={asked} />
    </section>
  );
}

function Causes({ stats }: { stats: CacheStats }) {
  const place = usePlace();
  const open = place.query.get("cause");
  const setOpen = (cause: string | null) => go(withQuery(place, { cause }), "replace");
  const [raw, setRaw] = useState<string | null>(null);
  if (stats.causes.length === 0) return <p className="quiet">Nothing broke it, or no provider said what its cache did.</p>;
  return (
    <>
      <p className="under">
        <span>{counted(stats.turns, "turn", "turns")}</span>
        {stats.read_share !== null && <span>{percent(stats.read_share)} read of what could have been</span>}
        <span title={`$${exact(stats.lost_usd)}`}>{dollars(stats.lost_usd)} lost</span>
        {stats.is_cut && <span>the newest are not in these sums</span>}
      </p>
      <table>
        <thead>
          <tr>
            <th>cause</th>
            <th className="number">turns</th>
            <th className="number wide-only">tokens lost</th>
            <th className="number">money lost</th>
            <th>worst turn</th>
          </tr>
        </thead>
        <tbody>
          {stats.causes.map((cause) => (
            <Fragment key={cause.cause}>
              <tr>
                <td>{CAUSE_IN_WORDS[cause.cause]}</td>
                <td className="number">{exact(cause.turns)}</td>
                <td className="number wide-only" title={exact(cause.lost_tokens)}>
                  {short(cause.lost_tokens)}
                </td>
                <td className="number" title={`$${exact(cause.lost_usd)}`}>
                  {dollars(cause.lost_usd)}
                </td>
                <td>
                  <button type="button" aria-expanded={open === cause.cause} onClick={() => setOpen(open === cause.cause ? null : cause.cause)}>
                    {open === cause.cause ? "hide" : "show"}
                  </button>
                </td>
              </tr>
              {open === cause.cause && (
                <tr>
                  <td colSpan={5}>
                    <CacheReportOf id={cause.example} />
                    <p>
                      <button type="button" className="fold" onClick={() => setRaw(cause.example)}>
                        the exchange as it was sent
                      </button>
                    </p>
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
      {raw && <RawExchange id={raw} onClose={() => setRaw(null)} />}
    </>
  );
}

/** Each day's prompts: what came from the cache, what was written to it, and what it had nothing to do with. */
function Hits({ stats, now, days: count }: { stats: Stats; now: number; days: number }) {
  const days = lastDays(now, count);
  const series = [
    { name: "read from the cache", values: perDay(stats, days, (sums) => sums.cache_read_tokens) },
    { name: "written to it", values: perDay(stats, days, (sums) => sums.cache_write_tokens) },
    { name: "neither", values: perDay(stats, days, (sums) => sums.input_tokens) },
  ];
  if (series.every((one) => one.values.every((value) => value === 0))) return <p className="quiet">Nothing was sent in these days.</p>;
  return (
    <>
      <Chart
        label="Tokens sent by day, and what the cache did with them"
        days={days}
        series={series}
        short={short}
        exact={(value) => `${exact(value)} tokens`}
        onDay={(day) => go(`/conversations?since=${day}&until=${day}`)}
      />
      <Legend series={series} short={short} />
    </>
  );
}

/** What is sent again and again: the same results, the same files, what is largest, and agents that go round in circles. */
function Repeats({ waste }: { waste: Pick<Waste, "results" | "files" | "largest" | "agents"> }) {
  const rows = [
    ...waste.results.map((one) => ["the same result", one] as const),
    ...waste.files.map((one) => ["the same file", one] as const),
    ...waste.largest.map((one) => ["a large part", one] as const),
  ].sort(([, a], [, b]) => b.cost_usd - a.cost_usd);
  if (rows.length === 0 && waste.agents.length === 0) return <p className="quiet">Nothing was sent twice.</p>;
  return (
    <>
      {rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th className="wide-only">what</th>
              <th>of</th>
              <th className="number wide-only">brought</th>
              <th className="number">sent</th>
              <th className="number">tokens</th>
              <th className="number">cost</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([what, one], at) => (
              <tr key={at}>
                <td className="wide-only">{what}</td>
                <td className="path" title={visible(one.excerpt)}>
                  <a href={`/search?q=${encodeURIComponent(wordsOf(one.excerpt))}`} onClick={follow}>
                    {visible(firstLine(`${one.tool ?? ""} ${one.argument ?? one.excerpt}`.trim(), 90))}
                  </a>
                </td>
                <td className="number wide-only" title="how many calls brought it">
                  {exact(one.brought)} ×
                </td>
                <td className="number" title="how many requests had it">
                  {exact(one.sent)} ×
                </td>
                <td className="number" title={exact(one.tokens)}>
                  {short(one.tokens)}
                </td>
                <td className="number" title={`$${exact(one.cost_usd)}`}>
                  {dollars(one.cost_usd)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {waste.agents.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>agent that repeats itself</th>
              <th className="wide-only">most often</th>
              <th className="number">calls</th>
              <th className="number">repeated</th>
              <th className="number">cost</th>
            </tr>
          </thead>
          <tbody>
            {waste.agents.map((one, at) => (
              <tr key={at}>
                <td>
                  <a href={to.conversation(one.conversation_id)} onClick={follow}>
                    {visible(one.name ?? one.branch_id ?? "main")}
                  </a>
                </td>
                <td className="path wide-only">{visible(firstLine(`${one.tool} ${one.argument ?? ""}`.trim(), 90))}</td>
                <td className="number">{exact(one.calls)}</td>
                <td className="number">{exact(one.repeated_calls)}</td>
                <td className="number" title={`$${exact(one.cost_usd)}`}>
                  {dollars(one.cost_usd)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** Enough words of a text to find it again. */
function wordsOf(excerpt: string): string {
  return (excerpt.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, 6).join(" ");
}

/** When system blocks and tools came, changed and went, on the way to an exchange. */
function TimelineOf({ of }: { of: string }) {
  const place = usePlace();
  const [typed, setTyped] = useState(of);
  const asked = useQuery({ ...queries.timeline({ ref: of }), enabled: of !== "" });
  return (
    <section>
      <h2>System prompt and tools over time</h2>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          go(withQuery(place, { of: typed.trim() }));
        }}
      >
        <label>
          of a conversation or exchange <input value={typed} onChange={(event) => setTyped(event.target.value)} />
        </label>
        <button type="submit">Show</button>
      </form>
      {asked.error && <Failure error={asked.error} retry={() => void asked.refetch()} />}
      {of !== "" && asked.isPending && <Loading what="changes" />}
      {asked.data && asked.data.changes.length === 0 && <p className="quiet">Nothing changed.</p>}
      {asked.data && (
        <ol className="timeline">
          {asked.data.changes.map((change, at) => (
            <li key={at}>
              <p className="under">
                <time dateTime={change.at}>{moment(change.at)}</time>
                <b>
                  {change.kind} {visible(change.name)} {change.what}
                </b>
                <span>
                  {change.tokens_added_estimate >= 0 ? "+" : "−"}
                  {short(Math.abs(change.tokens_added_estimate))} tokens
                </span>
                <span>sent in {counted(change.turns, "turn", "turns")}</span>
                {change.cost_usd_estimate !== null && <span>{dollars(change.cost_usd_estimate)}</span>}
              </p>
              {change.what === "changed" && <Diff before={change.before ?? ""} after={change.after ?? ""} isWhole={false} />}
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
