import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { visible } from "../pure/visible";
import * as queries from "../queries";
import { Dialog } from "./Dialog";
import { TokenForm } from "./Login";

/** Whose data is shown, and how to see another's. */
export function OwnerMenu() {
  const health = useQuery(queries.health);
  const id = useId();
  const [isAsking, setAsking] = useState(false);
  const owner = health.data?.owner;
  if (owner === undefined) return null;
  return (
    <>
      <button type="button" className="icon owner" popoverTarget={id} aria-label={`Owner ${visible(owner)}`}>
        <span>{visible(owner)}</span> ▾
      </button>
      <div id={id} popover="auto" className="menu owner-menu" role="group" aria-label="Owner">
        <p>
          You see what was recorded for <b>{visible(owner)}</b>.
        </p>
        <hr />
        <button type="button" popoverTarget={id} popoverTargetAction="hide" onClick={() => setAsking(true)}>
          See another owner’s…
        </button>
      </div>
      {isAsking && (
        <Dialog title="Another owner" onClose={() => setAsking(false)}>
          <p className="quiet">An owner’s token opens that owner’s data, in this browser until another is given.</p>
          <TokenForm path="/" query={new URLSearchParams()} />
        </Dialog>
      )}
    </>
  );
}
