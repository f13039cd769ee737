import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { getBytes, paths } from "../api";
import { bytes } from "../pure/format";
import { pictures } from "../pure/pictures";
import type { Part } from "../pure/session";
import { visible } from "../pure/visible";

/** A picture that was sent: its data as it is in the recorded request, never an address. */
export function Picture({ part, exchange }: { part: Part & { is: "image" }; exchange: string | null }) {
  const [isShown, setShown] = useState(false);
  const canBeShown = part.kind === "image" && part.length > 0 && exchange !== null;
  const request = useQuery({
    queryKey: ["bytes", exchange, "pictures"],
    queryFn: async ({ signal }) => pictures(new TextDecoder().decode(await getBytes(paths.half(exchange ?? "", "request"), signal))),
    enabled: isShown && canBeShown,
    gcTime: 60_000,
  });
  const found = request.data?.find((one) => one.type === part.detail && one.base64.length === part.length);
  const about = `${part.kind} ${visible(part.detail)}${part.length > 0 ? `, ${bytes((part.length * 3) / 4)}` : ""}`;
  return (
    <figure className="attachment">
      {found && isShown && <img src={`data:${found.type};base64,${found.base64}`} alt={about} />}
      <figcaption>
        {about}{" "}
        {canBeShown && (
          <button type="button" className="fold" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? "hide" : "show"}
          </button>
        )}
        {isShown && request.isSuccess && !found && <span className="quiet"> cannot be shown</span>}
        {isShown && request.isError && <span className="error"> cannot be read</span>}
      </figcaption>
    </figure>
  );
}
