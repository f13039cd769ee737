import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { paths, post, type Conversation } from "../api";
import { firstLine, visible } from "../pure/visible";

/** A conversation's title, and another one for it. Its friendly id stays. */
export function Title({ conversation }: { conversation: Conversation }) {
  const client = useQueryClient();
  const [typed, setTyped] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: (title: string) => post(paths.title(conversation.conversation_id), { title }),
    onSuccess: () => {
      setTyped(null);
      return client.invalidateQueries({ predicate: ({ queryKey: [kind] }) => kind === "conversation" || kind === "conversations" });
    },
  });
  if (typed === null) {
    return (
      <>
        <h1 dir="auto" title={visible(conversation.title ?? "")}>
          {visible(firstLine(conversation.title ?? "", 90)) || "(untitled)"}
        </h1>
        <button type="button" className="icon wide-only" disabled={conversation.friendly_id === null} onClick={() => setTyped(conversation.title ?? "")}>
          Rename
        </button>
      </>
    );
  }
  return (
    <form
      className="rename"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.trim() !== "") save.mutate(typed.trim());
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") setTyped(null);
      }}
    >
      <h1 className="off-screen">{visible(firstLine(conversation.title ?? "", 90))}</h1>
      <input autoFocus aria-label="Title" maxLength={200} value={typed} onChange={(event) => setTyped(event.target.value)} />
      <button type="submit" disabled={save.isPending}>
        Save
      </button>
      <button type="button" onClick={() => setTyped(null)}>
        Cancel
      </button>
      {save.error && <span className="error">{save.error.message}</span>}
    </form>
  );
}
