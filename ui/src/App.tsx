import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { ApiError } from "./api";
import { useKeys } from "./keys";
import { useConnection, useLive } from "./live";
import { Dialog } from "./parts/Dialog";
import { Help } from "./parts/Help";
import { Login } from "./parts/Login";
import { OwnerMenu } from "./parts/OwnerMenu";
import { Palette } from "./parts/Palette";
import { Empty, Loading } from "./parts/State";
import { bytes, counted, dollars, exact } from "./pure/format";
import * as queries from "./queries";
import { decoded, follow, go, usePlace, VIEWS } from "./router";
import { theme, toggleTheme } from "./theme";
import { startOfToday, useLasting, useNow } from "./time";
import { Agents } from "./views/Agents";
import { ConversationView } from "./views/Conversation";
import { Conversations } from "./views/Conversations";
import { Health } from "./views/Health";
import { Search } from "./views/Search";

const Home = lazy(() => import("./views/Home"));
const Compare = lazy(() => import("./views/Compare"));
const Insight = lazy(() => import("./views/Insight"));

export function App() {
  const place = usePlace();
  const [overlay, setOverlay] = useState<"help" | "palette" | null>(null);
  const close = () => setOverlay(null);
  useKeys(
    [
      { key: "?", does: "this help", run: () => setOverlay("help") },
      { key: "Mod+k", does: "search or jump", run: () => setOverlay("palette") },
      { key: "/", does: "search", run: () => go("/search") },
    ],
    "shell",
  );
  useEffect(close, [place.path]);
  // The newest page of the list tells whether this browser is let in, before anything else is asked.
  const entry = useInfiniteQuery(queries.agents);
  const isOutside = entry.error instanceof ApiError && entry.error.status === 401;
  useLive(entry.isSuccess);
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <Bar path={place.path} isInside={entry.isSuccess} onPalette={() => setOverlay("palette")} />
      <main id="main" tabIndex={-1}>
        <Suspense fallback={<Loading what="the view" />}>{isOutside ? <Login /> : <View path={place.path} />}</Suspense>
      </main>
      {overlay === "help" && (
        <Dialog title="Keys" onClose={close}>
          <Help />
        </Dialog>
      )}
      {overlay === "palette" && (
        <Dialog title="Search or jump" onClose={close} isTop>
          <Palette onDone={close} />
        </Dialog>
      )}
    </>
  );
}

function View({ path }: { path: string }) {
  const [view, id] = path.split("/").slice(1);
  useEffect(() => {
    const name = VIEWS.find(([to]) => to === `/${view ?? ""}`)?.[1];
    document.title = name ? `${name} · Ropewalk` : "Ropewalk";
  }, [view]);
  switch (view) {
    case "":
      return <Home />;
    case "conversations":
      return id ? <ConversationView key={id} id={decoded(id)} /> : <Conversations />;
    case "agents":
      return <Agents />;
    case "compare":
      return <Compare />;
    case "insight":
      return <Insight />;
    case "search":
      return <Search />;
    case "health":
      return <Health />;
    default:
      return <Empty>There is no view of this name.</Empty>;
  }
}

interface BarOf {
  path: string;
  isInside: boolean;
  onPalette: () => void;
}

function Bar({ path, isInside, onPalette }: BarOf) {
  const [shown, setShown] = useState(theme());
  const here = useRef<HTMLElement>(null);
  // On a narrow screen the views scroll; the one that is shown is in sight.
  useEffect(() => {
    // Some browsers answer with a promise, which is no clean-up.
    void here.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [path]);
  return (
    <header className="bar">
      <a className="brand" href="/" onClick={follow}>
        Ropewalk
      </a>
      <nav aria-label="Views" ref={here}>
        {VIEWS.map(([to, name]) => {
          const isHere = to === "/" ? path === "/" : path.startsWith(to);
          return (
            <a key={to} href={to} onClick={follow} aria-current={isHere ? "page" : undefined}>
              {name}
            </a>
          );
        })}
      </nav>
      <button type="button" className="jump-box" onClick={onPalette}>
        <span>
          Search<span className="wide-only"> or jump</span>
        </span>{" "}
        <kbd className="wide-only">{navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <span className="spring" />
      {isInside && <Status />}
      {isInside && <OwnerMenu />}
      <button
        type="button"
        className="icon"
        aria-label={shown === "dark" ? "Light theme" : "Dark theme"}
        onClick={() => setShown(toggleTheme())}
      >
        {shown === "dark" ? "☀" : "☾"}
      </button>
    </header>
  );
}

/** Longer than it takes to look twice. */
const LAG_MS = 4_000;

/** What runs and what today has cost, always in sight. */
function Status() {
  const agents = useInfiniteQuery(queries.agents);
  const today = useQuery(queries.stats(startOfToday(useNow())));
  const health = useQuery(queries.health);
  const connection = useConnection();
  const live = agents.data?.filter((agent) => agent.status === "streaming").length ?? 0;
  const waiting = health.data?.server?.journal_bytes ?? 0;
  const isBehind = health.data?.server?.store === "down";
  // Everything passes through the journal; what is still there when it was looked at again is behind.
  const isWaiting = useLasting(waiting > 0, LAG_MS);
  return (
    <div className="status" role="status" aria-label="Status">
      {connection === "lost" && <span className="error">not live</span>}
      {(isBehind || isWaiting) && (
        <a href="/health" onClick={follow} className={isBehind ? "error" : ""} title={`${exact(waiting)} bytes wait in the journal${isBehind ? ": the store is down" : ""}`}>
          journal {bytes(waiting)}
        </a>
      )}
      <a href="/agents" onClick={follow} title={`${counted(live, "agent is", "agents are")} being answered`}>
        <i className={live > 0 ? "dot streaming" : "dot idle"} /> {live} live
      </a>
      {today.data && (
        <a href="/" onClick={follow} title={`$${exact(today.data.total.cost_usd)}`}>
          {dollars(today.data.total.cost_usd)} <span className="wide-only">today</span>
        </a>
      )}
    </div>
  );
}
