import { diffLines } from "../pure/diff";
import { visible } from "../pure/visible";

/** Lines that stay the same around a change; more are left out. */
const AROUND = 3;

/** What was taken out and what was put in. */
export function Diff({ before, after, isWhole = true }: { before: string; after: string; isWhole?: boolean }) {
  const lines = diffLines(before, after);
  const isNear = (at: number) => lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((line) => line.is !== "same");
  let isGap = false;
  return (
    <pre className="plain diff" tabIndex={0} aria-label="Changed lines">
      {lines.map((line, at) => {
        if (!isWhole && line.is === "same" && !isNear(at)) {
          if (isGap) return null;
          isGap = true;
          return <span key={at} className="gap">{"  …\n"}</span>;
        }
        isGap = false;
        return (
          <span key={at} className={line.is}>
            {line.is === "gone" ? "- " : line.is === "new" ? "+ " : "  "}
            {visible(line.text)}
            {"\n"}
          </span>
        );
      })}
    </pre>
  );
}
