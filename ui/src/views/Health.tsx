import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { paths, post, type Check, type HealthReport, type Import } from "../api";
import { useConnection } from "../live";
import { More } from "../parts/More";
import { Empty, Failure, Loading } from "../parts/State";
import { bytes, counted, duration, exact, moment } from "../pure/format";
import { visible } from "../pure/visible";
import * as queries from "../queries";

const STORES: Record<string, string> = {
  up: "takes what is recorded",
  opening: "is being opened",
  down: "does not take anything; the journal keeps it meanwhile",
};

const UPDATES = { connecting: "are being asked for", live: "come as they happen", lost: "do not come; the page tries again" };

/** How the server is, whether the store is whole, and what was brought in. */
export function Health() {
  const health = useQuery(queries.health);
  if (health.error) return <Failure error={health.error} retry={() => void health.refetch()} />;
  if (health.isPending) return <Loading what="health" />;
  return (
    <div className="page health">
      <div className="filters">
        <h1>Health</h1>
        <button type="button" onClick={() => void health.refetch()}>
          Look again
        </button>
      </div>
      <Server report={health.data} />
      <Checked check={health.data.check} />
      <Imports imports={health.data.imports} />
      <Changes />
    </div>
  );
}

function Server({ report }: { report: HealthReport }) {
  const connection = useConnection();
  const { server } = report;
  const live: Row = ["Live updates", UPDATES[connection], connection !== "lost"];
  const rows: Row[] = server
    ? [
        ["Server", server.status === "ok" ? "is well" : "has trouble: see below", server.status === "ok"],
        ["Store", STORES[server.store] ?? server.store, server.store === "up"],
        ["Journal", server.journal_bytes === 0 ? "is empty" : `has ${bytes(server.journal_bytes)}`, server.store !== "down"],
        [
          "Search",
          server.search_lag_texts === 0 ? "finds everything" : `${exact(server.search_lag_texts)} texts are ${duration(server.search_lag_ms)} behind`,
          true,
        ],
        ["Not kept", sinceStart(server.exchanges_not_kept), server.exchanges_not_kept === 0],
        ["Rejected", sinceStart(server.exchanges_rejected), server.exchanges_rejected === 0],
        live,
        ["Version", `${server.version}, linking by rules v${report.rules_version}`, true],
      ]
    : [live];
  return (
    <table>
      <tbody>
        {rows.map(([name, told, isWell]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <i className={isWell ? "dot complete" : "dot error"} role="img" aria-label={isWell ? "well" : "not well"} /> {told}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

type Row = [name: string, told: string, isWell: boolean];

const sinceStart = (count: number) => (count === 0 ? "nothing since the start" : `${counted(count, "exchange", "exchanges")} since the start`);

function Checked({ check }: { check: Check }) {
  const client = useQueryClient();
  const begin = useMutation({
    mutationFn: () => post<Check>(paths.check, {}),
    onSettled: () => client.invalidateQueries({ queryKey: queries.health.queryKey }),
  });
  const isRunning = check.state === "running" || begin.isPending;
  return (
    <section>
      <div className="filters">
        <h2>Check of the store</h2>
        <button type="button" disabled={isRunning} onClick={() => begin.mutate()}>
          {isRunning ? "Checking…" : "Check now"}
        </button>
      </div>
      {begin.error && <Failure error={begin.error} retry={() => begin.mutate()} />}
      <p role="status">{result(check)}</p>
      {check.findings.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>rule</th>
              <th className="number">found</th>
              <th>for example</th>
            </tr>
          </thead>
          <tbody>
            {check.findings.map((found) => (
              <tr key={`${found.severity} ${found.rule}`}>
                <td>
                  <span className={found.severity === "error" ? "error" : "quiet"}>{found.severity}</span> <code>{found.rule}</code>
                </td>
                <td className="number">{exact(found.count)}</td>
                <td dir="auto" className="example">
                  {found.examples.map((example) => (
                    <p key={example}>{visible(example)}</p>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className="quiet">
        <code>ropewalk fsck --read-data</code> also reads every byte again; <code>ropewalk fsck --repair</code> mends what logs told; <code>ropewalk doctor</code> checks the
        set-up.
      </p>
    </section>
  );
}

function result(check: Check): string {
  switch (check.state) {
    case "never":
      return "Not checked since the server started.";
    case "running":
      return `Rows and what they refer to are looked at since ${moment(check.started_at ?? "")}.`;
    case "failed":
      return `The check failed: ${visible(check.problem ?? "")}`;
    case "done": {
      const when = ` Checked ${moment(check.ended_at ?? "")}.`;
      if (check.findings.length === 0) return `Everything is as it should be.${when}`;
      const found = [counted(check.errors, "error", "errors"), counted(check.warnings, "warning", "warnings"), counted(check.notes, "note", "notes")];
      return `${found.join(", ")}.${when}`;
    }
  }
}

function Imports({ imports }: { imports: Import[] }) {
  const files = useInfiniteQuery(queries.logFiles);
  const isNothing = imports.length === 0 && files.data?.length === 0;
  return (
    <section>
      <h2>Imports</h2>
      {isNothing && <Empty command="ropewalk import ~/.claude/projects">Nothing was imported yet.</Empty>}
      {imports.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>import</th>
              <th className="number">read</th>
              <th className="number">new</th>
              <th className="number">known</th>
              <th className="number">conflicts</th>
              <th className="number">skipped</th>
            </tr>
          </thead>
          <tbody>
            {imports.toReversed().map((one) => (
              <tr key={one.import}>
                <td>
                  <i className={one.is_done ? "dot complete" : "dot streaming"} role="img" aria-label={one.is_done ? "done" : "running"} /> {moment(one.started_at)}
                </td>
                <td className="number">{one.lines > 0 ? counted(one.lines, "line", "lines") : exact(one.exchanges)}</td>
                <td className="number">{exact(one.new)}</td>
                <td className="number">{exact(one.known)}</td>
                <td className="number">{exact(one.conflicts)}</td>
                <td className="number">{exact(one.problems)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {files.error && <Failure error={files.error} retry={() => void files.refetch()} />}
      {files.data && files.data.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>log that was read</th>
              <th className="number">bytes</th>
              <th className="number">skipped lines</th>
              <th className="wide-only">changed</th>
            </tr>
          </thead>
          <tbody>
            {files.data.map((file) => (
              <tr key={file.path}>
                <td className="path" title={visible(file.path)}>
                  <code>{visible(file.path)}</code>
                </td>
                <td className="number">{file.bytes_read > 0 && file.bytes_read < file.bytes ? `${bytes(file.bytes_read)} of ${bytes(file.bytes)}` : bytes(file.bytes)}</td>
                <td className="number">{exact(file.problems)}</td>
                <td className="wide-only">{moment(file.modified_at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <More asked={files} />
    </section>
  );
}

/** What was changed by hand: titles, what was forgotten, who used a token first. */
function Changes() {
  const noted = useInfiniteQuery(queries.noted);
  return (
    <section>
      <h2>Changes</h2>
      {noted.error && <Failure error={noted.error} retry={() => void noted.refetch()} />}
      {noted.data?.length === 0 && <p className="quiet">Nothing was changed by hand.</p>}
      {noted.data && noted.data.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>what</th>
              <th>of</th>
              <th className="wide-only">by</th>
              <th className="number">when</th>
            </tr>
          </thead>
          <tbody>
            {noted.data.map((one) => (
              <tr key={one.at + one.verb}>
                <td>{visible(one.verb)}</td>
                <td className="example">{visible(one.about ?? told(one.detail))}</td>
                <td className="wide-only">{visible(one.user ?? "")}</td>
                <td className="number">{moment(one.at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <More asked={noted} />
    </section>
  );
}

/** Counts and the like, in one line. */
function told(detail: unknown): string {
  if (typeof detail !== "object" || detail === null) return "";
  return Object.entries(detail)
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(", ");
}
