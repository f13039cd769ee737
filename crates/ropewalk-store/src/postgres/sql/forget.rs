//! Statements that remove things.

statements! {
    /// How often parts were removed, and the key of the owner's tombstones.
    SWEEPS = "SELECT sweeps, secret FROM owner WHERE owner_id = $1";
    FIND_TOMBSTONES = "SELECT found.hash, found.at FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (\
        SELECT hash, at FROM tombstone WHERE owner_id = $1 AND hash = asked.hash LIMIT 1) AS found";
    INSERT_TOMBSTONES = "INSERT INTO tombstone (owner_id, hash, at) SELECT $1, new.hash, $3 \
        FROM unnest($2::bytea[]) AS new (hash) ON CONFLICT (owner_id, hash) DO NOTHING";

    // Rows of exchanges.
    FORGET_EXCHANGES = "DELETE FROM exchange WHERE owner_id = $1 AND number = ANY($2) RETURNING number, id, keys, hashes, \
        request_length + coalesce(response_length, 0)";
    FORGET_HOLES = "DELETE FROM hole WHERE owner_id = $1 AND exchange = ANY($2)";
    FORGET_LINKS = "DELETE FROM link WHERE owner_id = $1 AND exchange = ANY($2)";
    FORGET_BRANCHES = "DELETE FROM branch WHERE owner_id = $1 AND first = ANY($2)";
    FORGET_CONVERSATIONS = "DELETE FROM conversation WHERE owner_id = $1 AND root = ANY($2)";
    FORGET_ALIASES = "DELETE FROM conversation_alias WHERE owner_id = $1 AND root = ANY($2)";
    FORGET_WANTED = "DELETE FROM wanted WHERE owner_id = $1 AND exchange = ANY($2)";
    FORGET_TEXTS = "DELETE FROM search_text WHERE owner_id = $1 AND exchange = ANY($2) RETURNING digest";
    FORGET_NAMES = "DELETE FROM conversation_name WHERE owner_id = $1 AND exchange = ANY($2) RETURNING exchange";
    FORGET_MESSAGE_NAMES = "DELETE FROM message_name WHERE owner_id = $1 AND (exchange = ANY($2) OR name = ANY($2)) \
        RETURNING exchange";
    FORGET_MESSAGES = "DELETE FROM message_name USING unnest($2::bigint[], $3::text[]) AS gone (name, hash) \
        WHERE message_name.owner_id = $1 AND message_name.name = gone.name AND message_name.short_hash = gone.hash \
        RETURNING message_name.exchange";
    FORGET_RECORDS = "DELETE FROM record WHERE owner_id = $1 AND session = ANY($2) RETURNING uuid";
    FORGET_PINS = "DELETE FROM pin WHERE owner_id = $1 AND position($2 IN outcome) > 0 RETURNING key";
    REPLACE_CONVERSATIONS = "UPDATE conversation SET record = new.record FROM unnest($2::bigint[], $3::bytea[]) \
        AS new (root, record) WHERE conversation.owner_id = $1 AND conversation.root = new.root";

    // Holes.
    INSERT_HOLE = "INSERT INTO hole (owner_id, exchange, kind, parent, decision, sha256, length) \
        SELECT $1, e.number, l.kind, l.parent, l.decision, $3, $4 FROM exchange e \
        LEFT JOIN link l ON l.owner_id = $1 AND l.exchange = e.number WHERE e.owner_id = $1 AND e.number = $2 ON CONFLICT (owner_id, exchange) DO UPDATE SET \
        sha256 = coalesce(excluded.sha256, hole.sha256), length = coalesce(excluded.length, hole.length) RETURNING exchange";
    REPLACE_REQUEST = "UPDATE exchange SET request_levels = $3, request_root = $4 WHERE owner_id = $1 AND number = $2";
    DROP_RESPONSE = "UPDATE exchange SET response_levels = -1, response_root = '' WHERE owner_id = $1 AND number = $2 \
        AND response_sha256 IS NOT NULL";
    HASHES_OF = "SELECT hashes FROM exchange WHERE owner_id = $1 AND number = $2";
    SET_HASHES = "UPDATE exchange SET hashes = $3 WHERE owner_id = $1 AND number = $2";
    FORGET_QUEUED_OF = "DELETE FROM search_queue WHERE owner_id = $1 AND exchange = $2 AND source = ANY($3) RETURNING digest";
    FORGET_TEXTS_OF = "DELETE FROM search_text WHERE owner_id = $1 AND exchange = $2 AND source = ANY($3) RETURNING digest";

    // Sweeping.
    PARTS_OF_TEXTS = "SELECT part FROM search_text WHERE owner_id = $1 AND part IS NOT NULL \
        UNION SELECT part FROM search_queue WHERE owner_id = $1 AND part IS NOT NULL";
    CHUNK_NUMBERS_FROM = "SELECT number FROM chunk WHERE owner_id = $1 AND number > $2 ORDER BY number LIMIT $3";
    DELETE_CHUNKS = "DELETE FROM chunk WHERE owner_id = $1 AND number = ANY($2)";
    PART_LENGTHS_FROM = "SELECT number, length FROM part WHERE owner_id = $1 AND number > $2 ORDER BY number LIMIT $3";
    DELETE_PARTS = "DELETE FROM part WHERE owner_id = $1 AND number = ANY($2)";
    NODES_FROM = "SELECT hash, parent, depth, exchange, seen_at, in_answer FROM node WHERE owner_id = $1 AND hash > $2 \
        ORDER BY hash LIMIT $3";
    EXCHANGE_ENDS_FROM = "SELECT number, at, greatest(at, coalesce(ended_at, at)), input_node, output_node FROM exchange \
        WHERE owner_id = $1 AND number > $2 ORDER BY number LIMIT $3";
    /// How long a request is, and the id: who was first of those who said something at the same time.
    PLACES = "SELECT e.number, input.depth, e.id FROM exchange e \
        JOIN node input ON input.owner_id = $1 AND input.hash = e.input_node \
        WHERE e.owner_id = $1 AND e.number = ANY($2)";
    DELETE_NODES = "DELETE FROM node WHERE owner_id = $1 AND hash = ANY($2)";
    INHERIT_NODES = "UPDATE node SET exchange = heir.exchange, seen_at = heir.seen_at, in_answer = heir.in_answer \
        FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::boolean[]) AS heir (hash, exchange, seen_at, in_answer) \
        WHERE node.owner_id = $1 AND node.hash = heir.hash";
    /// Figures are counted again; whoever remembers parts or links from before has to look again.
    COUNT_AGAIN = "UPDATE owner SET sweeps = sweeps + 1, link_version = link_version + 1, \
        exchanges = (SELECT count(*) FROM exchange WHERE owner_id = $1), \
        nodes = (SELECT count(*) FROM node WHERE owner_id = $1), parts = counted.parts, \
        part_bytes = counted.part_bytes, stored_bytes = counted.stored_bytes, bytes_in = bytes_in - $2 \
        FROM (SELECT count(*) AS parts, coalesce(sum(length), 0) AS part_bytes, \
        coalesce(sum(octet_length(bytes)), 0) AS stored_bytes FROM part WHERE owner_id = $1) AS counted \
        WHERE owner.owner_id = $1";

    // Dictionaries that know something that is gone.
    ALL_DICTIONARIES = "SELECT number, bytes FROM dictionary WHERE owner_id = $1 ORDER BY number";
    PARTS_PACKED_WITH = "SELECT number, codec, length, bytes FROM part WHERE owner_id = $1 AND number > $2 AND codec = $4 \
        ORDER BY number LIMIT $3";
    REPACK_PARTS = "UPDATE part SET codec = new.codec, bytes = new.bytes \
        FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS new (number, codec, bytes) \
        WHERE part.owner_id = $1 AND part.number = new.number";
    DELETE_DICTIONARY = "DELETE FROM dictionary WHERE owner_id = $1 AND number = $2";

    // Copies. These take no owner: a copy is of all of them.
    NO_TIMEOUT_HERE = "SET LOCAL statement_timeout = 0";
    COLUMNS = "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped \
        ORDER BY attnum";
    NEXT_OWNER = "SELECT setval(pg_get_serial_sequence('owner_name', 'owner_id'), \
        (SELECT coalesce(max(owner_id), 0) + 1 FROM owner_name), false)";

    // Room. These take no owner: they are about files of the server.
    STORE_SIZE = "SELECT pg_database_size(current_database())";
    NO_TIMEOUT = "SET statement_timeout = 0";
    VACUUM = "VACUUM part, chunk, node, exchange, exchange_key, provenance, sent_body, spawn, search_queue, search_text, link, \
        branch, conversation, conversation_alias, wanted, record, conversation_name, message_name, pin, hole, course, dictionary, owner";
}
