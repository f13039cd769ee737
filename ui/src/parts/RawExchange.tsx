import { useQuery } from "@tanstack/react-query";
import { useState, type KeyboardEvent } from "react";
import { paths, type Explanation } from "../api";
import { bytes, dollars, duration, exact, moment } from "../pure/format";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { follow, to } from "../router";
import { CacheReportOf } from "./CacheReport";
import { Copy } from "./Copy";
import { Dialog } from "./Dialog";
import { Failure, Loading } from "./State";

const TABS = ["link", "cache", "headers", "request", "response"] as const;
type Tab = (typeof TABS)[number];
const NAMES: Record<Tab, string> = { link: "Link and hashes", cache: "Cache", headers: "Headers", request: "Request", response: "Response" };

/** An exchange as it was sent, and why it stands where it does. */
export function RawExchange({ id, onClose }: { id: string; onClose: () => void }) {
  const [tab, setTab] = useState<Tab>("link");
  const onKeyDown = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    const next = TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length] ?? "link";
    setTab(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <Dialog title="Exchange" onClose={onClose} isWide>
      <div className="tabs" role="tablist" aria-label="Parts of the exchange" onKeyDown={onKeyDown}>
        {TABS.map((name) => (
          <button
            key={name}
            id={`tab-${name}`}
            type="button"
            role="tab"
            aria-selected={tab === name}
            aria-controls="tab-panel"
            tabIndex={tab === name ? 0 : -1}
            onClick={() => setTab(name)}
          >
            {NAMES[name]}
          </button>
        ))}
        <span className="spring" />
        <a href={to.answers(id)} onClick={follow}>
          all answers to this
        </a>
        <Copy className="id" label="Copy exchange id" text={id}>
          {id.slice(0, 13)}…
        </Copy>
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === "link" ? (
          <Link id={id} />
        ) : tab === "cache" ? (
          <CacheReportOf id={id} />
        ) : tab === "headers" ? (
          <Headers id={id} />
        ) : (
          <Half key={tab} id={id} half={tab} />
        )}
      </div>
    </Dialog>
  );
}

const HASHES = [
  "input_node",
  "output_node",
  "message_hash",
  "current_message_hash",
  "parent_message_hash",
  "system_hash",
  "toolset_hash",
  "prompt_hash",
  "response_hash",
  "path_hash",
  "request_sha256",
  "response_sha256",
] as const;

function Link({ id }: { id: string }) {
  const explained = useQuery(queries.exchange(id));
  if (explained.error) return <Failure error={explained.error} retry={() => void explained.refetch()} />;
  if (explained.isPending) return <Loading what="the exchange" />;
  const { exchange, rejected } = explained.data;
  return (
    <>
      <dl className="facts-list">
        {factsOf(explained.data).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{visible(value)}</dd>
          </div>
        ))}
        {HASHES.map((name) => {
          const value = exchange[name];
          return typeof value !== "string" ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <Copy className="hash" label={`Copy ${name}`} text={value}>
                  {value}
                </Copy>
              </dd>
            </div>
          );
        })}
      </dl>
      {rejected.length > 0 && (
        <>
          <h3>Not linked to</h3>
          <ul className="rejected">
            {rejected.map((one) => (
              <li key={one.exchange_id}>
                <code>{visible(one.exchange_id)}</code> {visible(one.reason)}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

/** What the bodies were sent with, as far as it is kept. */
function Headers({ id }: { id: string }) {
  const explained = useQuery(queries.exchange(id));
  if (explained.error) return <Failure error={explained.error} retry={() => void explained.refetch()} />;
  if (explained.isPending) return <Loading what="the headers" />;
  const { envelope } = explained.data;
  const halves = [
    [`${envelope.http_method} ${envelope.http_target}`, envelope.request_headers],
    [envelope.http_status === null ? "No answer" : `Status ${envelope.http_status}`, envelope.response_headers],
  ] as const;
  return (
    <>
      {halves.map(([name, headers], at) => (
        <section key={at}>
          <h3 className="path">{visible(name)}</h3>
          <dl className="facts-list">
            {Object.entries(headers).map(([header, value]) => (
              <div key={header}>
                <dt>{visible(header)}</dt>
                <dd>{visible(value)}</dd>
              </div>
            ))}
          </dl>
          {Object.keys(headers).length === 0 && <p className="quiet">No header of it is kept.</p>}
        </section>
      ))}
      <p className="quiet">Credentials are never kept; <code>record.headers</code> in the configuration keeps more of the others.</p>
    </>
  );
}

function factsOf({ exchange, reason }: Explanation): [string, string][] {
  const { usage, link } = exchange;
  const tokens = [
    `${exact(usage.input_tokens ?? 0)} in`,
    `${exact(usage.cache_read_tokens ?? 0)} read from the cache`,
    `${exact(usage.cache_write_tokens ?? 0)} written to it`,
    `${exact(usage.output_tokens ?? 0)} out`,
  ];
  const facts: [string, string | null][] = [
    ["at", moment(exchange.at)],
    ["model", exchange.model],
    ["kind", `${exchange.kind}, ${exchange.status}${exchange.rewritten ? ", rewritten" : ""}`],
    ["branch", exchange.branch_id],
    ["linked", `${link.method ?? "not yet"}${link.confidence === null ? "" : ` (${exact(link.confidence)})`}`],
    ["why", reason],
    ["tokens", tokens.join(", ")],
    ["cost", exchange.cost_usd === null ? null : dollars(exchange.cost_usd)],
    ["latency", exchange.latency_ms === null ? null : duration(exchange.latency_ms)],
    ["first byte", exchange.first_byte_ms === null ? null : duration(exchange.first_byte_ms)],
    ["reuse", exchange.reuse],
  ];
  return facts.filter((fact): fact is [string, string] => fact[1] !== null);
}

function Half({ id, half }: { id: string; half: "request" | "response" }) {
  const body = useQuery(queries.bytes(id, half));
  const [isRaw, setRaw] = useState(false);
  if (body.error) return <Failure error={body.error} retry={() => void body.refetch()} />;
  if (body.isPending) return <Loading what={`the ${half}`} />;
  const { text, length } = body.data;
  const isCut = length > queries.BYTES_SHOWN;
  const pretty = isRaw || isCut ? null : prettyJson(text);
  return (
    <>
      <p className="under">
        <span title={`${exact(length)} bytes`}>{bytes(length)}</span>
        {isCut && <span>the first {bytes(queries.BYTES_SHOWN)} are shown</span>}
        <a href={paths.half(id, half)} download={`${id}.${half}`}>
          Download the exact bytes
        </a>
        <label>
          <input type="checkbox" checked={isRaw} onChange={(event) => setRaw(event.target.checked)} /> as sent
        </label>
      </p>
      <pre className="plain raw">{visible(pretty ?? text)}</pre>
    </>
  );
}

/** Indented for reading; numbers may lose digits this way, which is why the exact bytes are one click away. */
function prettyJson(text: string): string | null {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}
