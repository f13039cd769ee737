import { useQuery } from "@tanstack/react-query";
import type { ContextChange } from "../api";
import { counted } from "../pure/format";
import * as queries from "../queries";
import { Dialog } from "./Dialog";
import { Diff } from "./Diff";
import { Failure, Loading } from "./State";

/** How the system prompt or the tools became others. */
export function Changed({ id, change, onClose }: { id: string; change: ContextChange; onClose: () => void }) {
  const texts = useQuery(queries.changes(id, change.exchange_id));
  const found = texts.data?.changes.find((one) => one.what === change.what);
  return (
    <Dialog title={change.what === "tools" ? "Tools changed" : "System prompt changed"} onClose={onClose} isWide>
      {texts.error && <Failure error={texts.error} retry={() => void texts.refetch()} />}
      {texts.isPending && <Loading what="both texts" />}
      {found && <Diff before={found.before ?? ""} after={found.after ?? ""} isWhole={false} />}
      {found && found.chars_left_out > 0 && <p className="quiet">{counted(found.chars_left_out, "character", "characters")} are not compared.</p>}
    </Dialog>
  );
}
