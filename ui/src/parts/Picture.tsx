import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { bytes } from "../pure/format";
import type { Part } from "../pure/session";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { Dialog } from "./Dialog";

/** Larger pictures, in characters of base64, are read when somebody asks for them. */
const UNASKED_MAX = 8 * 1024 * 1024;

interface Attached {
  part: Part & { is: "image" };
  exchange: string | null;
  /** How many of the same kind and length follow in its message: what they are told apart by. */
  alikeBehind: number;
}

/**
 * A picture that was sent: its data as it is in the recorded request, never an address. Only messages near the screen are in the
 * page, so only their requests are read. It has its room before it is there, so that nothing moves when it comes.
 */
export function Picture({ part, exchange, alikeBehind }: Attached) {
  const [isWanted, setWanted] = useState(part.length <= UNASKED_MAX);
  const [isLarge, setLarge] = useState(false);
  const canBeShown = part.kind === "image" && part.length > 0 && exchange !== null;
  const request = useQuery({ ...queries.sentPictures(exchange ?? ""), enabled: isWanted && canBeShown });
  // A request repeats the whole conversation; what came with it is at its end.
  const alike = request.data?.filter((one) => one.type === part.detail && one.base64.length === part.length);
  const found = alike?.at(-1 - alikeBehind);
  const kind = visible(part.detail.replace(/^image\//, "")) || part.kind;
  const about = part.length > 0 ? `${kind}, ${bytes((part.length * 3) / 4)}` : kind;
  if (!canBeShown) return <p className="attachment">{`${part.kind} ${visible(part.detail)}`}</p>;
  const image = found && <img src={`data:${found.type};base64,${found.base64}`} alt={`${about}, ${found.width} by ${found.height} pixels`} decoding="async" />;
  return (
    <figure className="attachment">
      {isWanted && !request.isError && (found || request.isPending) && (
        <button type="button" className="thumbnail" aria-label={`${about}: show it large`} disabled={!found} onClick={() => setLarge(true)}>
          {image}
        </button>
      )}
      <figcaption>
        {about}
        {found && ` · ${found.width} × ${found.height}`}
        {found?.hash && (
          <>
            {" "}
            <code>{found.hash}</code>
          </>
        )}
        {!isWanted && (
          <button type="button" className="fold" onClick={() => setWanted(true)}>
            show
          </button>
        )}
        {request.isSuccess && !found && " · cannot be shown"}
        {request.isError && <span className="error"> · cannot be read</span>}
      </figcaption>
      {isLarge && (
        <Dialog title={about} onClose={() => setLarge(false)} isWide>
          <div className="picture">{image}</div>
        </Dialog>
      )}
    </figure>
  );
}
