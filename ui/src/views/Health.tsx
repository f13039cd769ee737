import { useQuery } from "@tanstack/react-query";
import { useConnection } from "../live";
import { Failure, Loading } from "../parts/State";
import { bytes, duration, exact } from "../pure/format";
import * as queries from "../queries";

const STORES = {
  up: "takes what is recorded",
  opening: "is being opened",
  down: "does not take anything; the journal keeps it meanwhile",
};

export function Health() {
  const health = useQuery(queries.health);
  const connection = useConnection();
  if (health.error) return <Failure error={health.error} retry={() => void health.refetch()} />;
  if (health.isPending) return <Loading what="health" />;
  const { data } = health;
  const rows: [string, string, boolean][] = [
    ["Server", data.status === "ok" ? "is well" : "has trouble: see below", data.status === "ok"],
    ["Store", STORES[data.store], data.store === "up"],
    ["Journal", `has ${bytes(data.journal_bytes)}`, data.store !== "down"],
    [
      "Search",
      data.search_lag_texts === 0 ? "finds everything" : `${exact(data.search_lag_texts)} texts are ${duration(data.search_lag_ms)} behind`,
      true,
    ],
    ["Not kept", `${exact(data.exchanges_not_kept)} exchanges since the start`, data.exchanges_not_kept === 0],
    ["Rejected", `${exact(data.exchanges_rejected)} exchanges since the start`, data.exchanges_rejected === 0],
    ["Live updates", connection === "live" ? "come as they happen" : "do not come; the page tries again", connection === "live"],
    ["Version", data.version, true],
  ];
  return (
    <div className="page health">
      <div className="filters">
        <h1>Health</h1>
        <button type="button" onClick={() => void health.refetch()}>
          Look again
        </button>
      </div>
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
      <p className="quiet">
        <code>ropewalk fsck</code> checks everything that is stored; <code>ropewalk doctor</code> checks the set-up.
      </p>
    </div>
  );
}
