import { useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { dayName, labelled, ticks } from "../pure/scale";
import { visible } from "../pure/visible";

export interface Series {
  name: string;
  values: number[];
}

interface Charted {
  /** What it shows, for who does not see it. */
  label: string;
  days: string[];
  series: Series[];
  /** For the axis, and the exact value for who points at a day. */
  short: (value: number) => string;
  exact: (value: number) => string;
  /** Where a day leads. */
  onDay?: (day: string) => void;
}

const TICKS = 4;
const NAMES = 5;

/** Stacked columns, one for each day, with axes. Pointing at a day, or going there with the arrow keys, shows its figures. */
export function Chart({ label, days, series, short, exact, onDay }: Charted) {
  const plot = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const totals = days.map((_, day) => series.reduce((sum, one) => sum + (one.values[day] ?? 0), 0));
  const lines = ticks(Math.max(0, ...totals), TICKS);
  const top = lines.at(-1) ?? 1;
  const point = (event: PointerEvent) => {
    const box = plot.current?.getBoundingClientRect();
    if (box) setAt(Math.max(0, Math.min(days.length - 1, Math.floor(((event.clientX - box.left) / box.width) * days.length))));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (by !== 0) setAt(Math.max(0, Math.min(days.length - 1, (at ?? days.length - 1) + by)));
    else if (event.key === "Enter" && at !== null) onDay?.(days[at] ?? "");
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const share = (index: number) => `${((index + 0.5) / days.length) * 100}%`;
  return (
    <figure className="chart">
      <div className="chart-values" aria-hidden="true">
        {lines.map((value) => (
          <span key={value} style={{ bottom: `${(value / top) * 100}%` }}>
            {short(value)}
          </span>
        ))}
      </div>
      <div
        ref={plot}
        className={onDay ? "chart-plot leads" : "chart-plot"}
        tabIndex={0}
        role="group"
        aria-label={`${label}; arrow keys go from day to day`}
        onPointerMove={point}
        onPointerLeave={() => setAt(null)}
        onFocus={(event) => event.currentTarget.matches(":focus-visible") && setAt(at ?? days.length - 1)}
        onBlur={() => setAt(null)}
        onKeyDown={onKeyDown}
        onClick={() => at !== null && onDay?.(days[at] ?? "")}
      >
        {lines.map((value) => (
          <i key={value} style={{ bottom: `${(value / top) * 100}%` }} />
        ))}
        <svg viewBox={`0 0 ${days.length * 10} 100`} preserveAspectRatio="none" aria-hidden="true">
          {at !== null && <rect x={at * 10} y={0} width={10} height={100} className="pointed" />}
          {days.map((day, index) => {
            let below = 100;
            return series.map((one, which) => {
              const height = (100 * (one.values[index] ?? 0)) / top;
              below -= height;
              return height <= 0 ? null : <rect key={day + one.name} x={index * 10 + 1} y={below} width={8} height={height} className={`fill-${which % 8}`} />;
            });
          })}
        </svg>
        {at !== null && <Told day={days[at] ?? ""} at={at} isLeft={at > days.length / 2} total={totals[at] ?? 0} series={series} exact={exact} place={share(at)} />}
      </div>
      <div className="chart-days" aria-hidden="true">
        {labelled(days.length, NAMES).map((index) => (
          <span key={index} className={index === days.length - 1 ? "last" : ""} style={index === days.length - 1 ? { right: 0 } : { left: share(index) }}>
            {dayName(days[index] ?? "")}
          </span>
        ))}
      </div>
      <div className="off-screen">
        <table>
          <caption>{label}</caption>
          <tbody>
            {days.map((day, index) =>
              totals[index] === 0 ? null : (
                <tr key={day}>
                  <th scope="row">{day}</th>
                  <td>{series.flatMap((one) => ((one.values[index] ?? 0) > 0 ? [`${visible(one.name)} ${exact(one.values[index] ?? 0)}`] : [])).join(", ")}</td>
                </tr>
              ),
            )}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

interface Telling {
  day: string;
  at: number;
  isLeft: boolean;
  total: number;
  series: Series[];
  exact: (value: number) => string;
  place: string;
}

function Told({ day, at, isLeft, total, series, exact, place }: Telling) {
  const some = series.map((one, which) => [one.name, one.values[at] ?? 0, which] as const).filter(([, value]) => value > 0);
  return (
    <div className="told" role="status" style={isLeft ? { right: `calc(100% - ${place})` } : { left: place }}>
      <p>
        <b>{day}</b> <span className="number">{exact(total)}</span>
      </p>
      {some.length > 1 &&
        some.map(([name, value, which]) => (
          <p key={name}>
            <i className={`swatch fill-${which % 8}`} /> {visible(name)} <span className="number">{exact(value)}</span>
          </p>
        ))}
      {some.length === 1 && <p className="quiet">{visible(some[0]?.[0] ?? "")}</p>}
      {some.length === 0 && <p className="quiet">nothing</p>}
    </div>
  );
}

export function Legend({ series, short }: { series: Series[]; short: (value: number) => string }) {
  return (
    <ul className="legend">
      {series.map((one, which) => (
        <li key={one.name}>
          <i className={`swatch fill-${which % 8}`} /> {visible(one.name)} <span className="quiet">{short(one.values.reduce((sum, value) => sum + value, 0))}</span>
        </li>
      ))}
    </ul>
  );
}
