//! Records of logs, how far files were read, and exchanges that are told anew.

statements! {
    DELETE_RECORDS = "DELETE FROM record WHERE owner_id = $1 AND session = ANY($2)";
    /// Locks what is there, so that two who read the same files agree on the row that stays.
    LOCK_RECORDS = "SELECT found.* FROM unnest($2::text[], $3::text[]) AS asked (session, uuid) CROSS JOIN LATERAL (\
        SELECT session, uuid, record FROM record WHERE owner_id = $1 AND session = asked.session AND uuid = asked.uuid \
        FOR UPDATE) AS found";
    SAVE_RECORDS = "INSERT INTO record (owner_id, session, uuid, record) SELECT $1, new.* \
        FROM unnest($2::text[], $3::text[], $4::bytea[]) AS new (session, uuid, record) \
        ON CONFLICT (owner_id, session, uuid) DO UPDATE SET record = excluded.record";
    RECORDS_OF_SESSION = "SELECT session, uuid, record FROM record WHERE owner_id = $1 AND session = $2 AND uuid > $3 \
        ORDER BY uuid LIMIT $4";
    RECORDS_NAMED = "SELECT found.* FROM unnest($2::text[], $3::text[]) AS asked (session, uuid) CROSS JOIN LATERAL (\
        SELECT session, uuid, record FROM record WHERE owner_id = $1 AND session = asked.session AND uuid = asked.uuid \
        LIMIT 1) AS found";
    ALL_RECORDS = "SELECT session, uuid, record FROM record WHERE owner_id = $1 AND (session, uuid) > ($2, $3) \
        ORDER BY session, uuid LIMIT $4";
    SAVE_FILES = "INSERT INTO imported_file (owner_id, path, size, modified, tail, position, problems) SELECT $1, new.* \
        FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[]) \
        AS new (path, size, modified, tail, position, problems) ON CONFLICT (owner_id, path) DO UPDATE SET \
        size = excluded.size, modified = excluded.modified, tail = excluded.tail, position = excluded.position, \
        problems = excluded.problems";
    IMPORTED_FILES = "SELECT found.* FROM unnest($2::text[]) WITH ORDINALITY AS asked (path, place) CROSS JOIN LATERAL (\
        SELECT path, size, modified, tail, position, problems FROM imported_file \
        WHERE owner_id = $1 AND path = asked.path LIMIT 1) AS found ORDER BY asked.place";
    ALL_IMPORTED_FILES = "SELECT path, size, modified, tail, position, problems FROM imported_file \
        WHERE owner_id = $1 AND path > $2 ORDER BY path LIMIT $3";

    /// Who told of these calls; the same columns as of exchanges by their ids.
    FIND_CALLS = "SELECT e.id, e.number, e.request_sha256, e.response_sha256, e.at, e.keys, e.ended_at, e.session, \
        e.hashes, e.request_length + coalesce(e.response_length, 0), p.file, p.line, p.uuid, p.log_begun \
        FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (SELECT exchange FROM exchange_key \
        WHERE owner_id = $1 AND kind = $3 AND hash = asked.hash ORDER BY seen_at, exchange LIMIT $4) AS k \
        CROSS JOIN LATERAL (SELECT * FROM exchange WHERE owner_id = $1 AND number = k.exchange LIMIT 1) AS e \
        LEFT JOIN provenance p ON p.owner_id = $1 AND p.exchange = e.number";
    /// Under the owner's lock: who has told of them by now.
    TELLERS_OF_CALLS = "SELECT k.exchange FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (\
        SELECT exchange FROM exchange_key WHERE owner_id = $1 AND kind = $3 AND hash = asked.hash \
        ORDER BY seen_at, exchange LIMIT $4) AS k";
    DELETE_KEYS = "DELETE FROM exchange_key USING unnest($2::smallint[], $3::bytea[], $4::bigint[]) \
        AS gone (kind, hash, exchange) WHERE exchange_key.owner_id = $1 AND exchange_key.kind = gone.kind \
        AND exchange_key.hash = gone.hash AND exchange_key.exchange = gone.exchange";
    DELETE_PROVENANCE = "DELETE FROM provenance WHERE owner_id = $1 AND exchange = ANY($2)";
    DELETE_SPAWNS = "DELETE FROM spawn WHERE owner_id = $1 AND exchange = ANY($2)";
    DELETE_SENT = "DELETE FROM sent_body WHERE owner_id = $1 AND exchange = ANY($2)";
    DELETE_QUEUED = "DELETE FROM search_queue WHERE owner_id = $1 AND exchange = ANY($2)";
    DELETE_TEXTS = "DELETE FROM search_text WHERE owner_id = $1 AND exchange = ANY($2)";
    /// Gives back those that were still there.
    DELETE_EXCHANGES = "DELETE FROM exchange WHERE owner_id = $1 AND number = ANY($2) RETURNING number";
}
