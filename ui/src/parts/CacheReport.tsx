import { useQuery } from "@tanstack/react-query";
import { CAUSE_IN_WORDS } from "../pure/causes";
import { dollars, exact, short } from "../pure/format";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, to } from "../router";
import { Diff } from "./Diff";
import { Failure, Loading } from "./State";

const OUTCOMES = {
  hit: "Everything that could be read was.",
  partial: "Some of what could be read was.",
  miss: "Nothing was read.",
  nothing_to_read: "There was nothing to read.",
  nothing_to_explain: "There are no figures.",
};

/** What the provider's cache gave for an exchange, and why not more: the bytes that differ, and the money. */
export function CacheReportOf({ id }: { id: string }) {
  const asked = useQuery(queries.cacheReport(id));
  if (asked.error) return <Failure error={asked.error} retry={() => void asked.refetch()} />;
  if (asked.isPending) return <Loading what="what the cache gave" />;
  const report = asked.data;
  const { difference, cause } = report;
  return (
    <>
      <p>
        <strong>{OUTCOMES[report.outcome]}</strong> {report.reason && visible(report.reason)}
      </p>
      <p className="under">
        <span title={exact(report.prompt_tokens)}>{short(report.prompt_tokens)} tokens of prompt</span>
        <span title={exact(report.readable_tokens)}>{short(report.readable_tokens)} could be read</span>
        <span title={exact(report.read_tokens)}>{short(report.read_tokens)} were</span>
        {report.lost_tokens > 0 && <span className="error">{short(report.lost_tokens)} lost</span>}
        {report.lost_usd > 0 && <span className="error">{dollars(report.lost_usd)}</span>}
      </p>
      {cause && (
        <p>
          <b>{CAUSE_IN_WORDS[cause.kind]}</b>: {visible(cause.explained)}
        </p>
      )}
      {difference && (
        <>
          <p className="quiet">
            {visible(difference.place_before ?? "nothing")} → {visible(difference.place_after ?? "nothing")}, after {exact(difference.at_char)} characters that are the same
          </p>
          <Diff before={difference.before ?? ""} after={difference.after ?? ""} />
        </>
      )}
      {report.compared_with !== null && (
        <p>
          <a href={to.compare(report.compared_with, report.exchange_id)} onClick={follow}>
            compare with the turn before
          </a>
        </p>
      )}
    </>
  );
}
