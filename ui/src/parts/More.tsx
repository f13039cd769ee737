/** The rest of a list, when somebody wants it. */

export interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

export function More({ asked }: { asked: Partial<Paged> }) {
  if (asked.hasNextPage !== true) return null;
  return (
    <p>
      <button type="button" disabled={asked.isFetchingNextPage === true} onClick={() => void asked.fetchNextPage?.()}>
        {asked.isFetchingNextPage === true ? "Loading more…" : "Show more"}
      </button>
    </p>
  );
}
