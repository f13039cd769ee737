//! Every statement, in one place, so that a test can read them all.
//!
//! Invariant: a statement either filters every table it names by `owner_id`, or is listed in `WITHOUT_OWNER` of the test
//! below with its reason. The schema can then be distributed by owner, and no statement can show one owner another's data.
//! `$1` is the owner wherever there is one.
//!
//! Many keys are asked for as `unnest(keys) CROSS JOIN LATERAL (… LIMIT 1)`: one index look-up per key, whatever the
//! planner believes. With `= ANY(keys)` and no statistics it reads all of the owner's rows instead.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* pub(in crate::postgres) const $name: &str = $text;)*

        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

mod derived;
mod forget;
mod log;
mod names;

pub(super) use derived::*;
pub(super) use forget::*;
pub(super) use log::*;
pub(super) use names::*;

/// What a reader of exchanges gets, in the order in which `rows` takes it apart.
macro_rules! exchange_columns {
    () => {
        "e.number, e.position, e.id, e.at, e.ended_at, e.answered_at, e.status, e.http_status, e.provider, e.model, \
         e.kind, e.session, e.agent, e.project, e.input_node, e.output_node, e.hashes, e.keys, e.usage, e.cost_nano_usd, \
         e.cost_is_estimate, e.request_sha256, e.response_sha256, e.request_length, e.response_length, e.detail, \
         e.rules_version, p.file, p.line, p.uuid, p.aliases, p.log_begun, \
         (SELECT n.depth FROM node n WHERE n.owner_id = $1 AND n.hash = e.input_node), e.projections, h.exchange, h.kind, h.parent, \
         h.decision, e.request_levels >= 0, coalesce(e.response_levels >= 0, false) "
    };
}

/// The columns of an exchange behind its owner, in the order in which `rows` hands them in.
macro_rules! exchange_row {
    () => {
        "number, position, at, ended_at, answered_at, cost_nano_usd, request_length, response_length, rules_version, \
         status, http_status, request_levels, response_levels, cost_is_estimate, id, provider, model, kind, session, \
         agent, project, input_node, output_node, request_sha256, response_sha256, request_root, response_root, hashes, \
         keys, usage, detail, projections"
    };
}

/// Rows handed in column by column.
macro_rules! new_exchanges {
    () => {
        concat!(
            "FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
             $8::bigint[], $9::bigint[], $10::bigint[], $11::smallint[], $12::smallint[], $13::smallint[], \
             $14::smallint[], $15::boolean[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], \
             $21::text[], $22::text[], $23::bytea[], $24::bytea[], $25::bytea[], $26::bytea[], $27::bytea[], \
             $28::bytea[], $29::bytea[], $30::bytea[], $31::bytea[], $32::text[], $33::smallint[]) AS new (",
            exchange_row!(),
            ")"
        )
    };
}

macro_rules! with_provenance {
    () => {
        " LEFT JOIN provenance p ON p.owner_id = $1 AND p.exchange = e.number \
         LEFT JOIN hole h ON h.owner_id = $1 AND h.exchange = e.number WHERE e.at <= $2 "
    };
}

statements! {
    // Schema.
    LOCK_SCHEMA = "SELECT pg_advisory_xact_lock($1)";
    CREATE_SCHEMA_VERSION = "CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY, \
        min_reader integer NOT NULL, min_writer integer NOT NULL)";
    HAS_SCHEMA_VERSION = "SELECT to_regclass('schema_version') IS NOT NULL";
    SELECT_SCHEMA_VERSION =
        "SELECT version, min_reader, min_writer FROM schema_version ORDER BY version DESC LIMIT 1";
    INSERT_SCHEMA_VERSION = "INSERT INTO schema_version (version, min_reader, min_writer) VALUES ($1, $2, $3)";

    // A cluster of servers.
    HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')";
    /// Tables whose key begins with their owner; the directory of owners has names for keys and stays where it is.
    OWNED_TABLES = "SELECT c.relname::text FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.attname = 'owner_id' \
        AND c.relname <> 'owner_name' ORDER BY c.relname <> 'owner', c.relname";
    DISTRIBUTED_TABLES = "SELECT logicalrelid::regclass::text FROM pg_dist_partition";
    DISTRIBUTE_FIRST = "SELECT create_distributed_table($1::text::regclass, 'owner_id')";
    DISTRIBUTE_BESIDE = "SELECT create_distributed_table($1::text::regclass, 'owner_id', colocate_with => 'owner')";

    FORGET_PLANS = "DISCARD PLANS";

    // Owners.
    FIND_OWNER = "SELECT owner_id FROM owner_name WHERE name = $1";
    OWNERS = "SELECT owner_id, name FROM owner_name WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2";
    INSERT_OWNER_NAME = "INSERT INTO owner_name (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
    INSERT_OWNER = "INSERT INTO owner (owner_id, secret) \
        VALUES ($1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) \
        ON CONFLICT (owner_id) DO NOTHING";
    INSERT_OWNER_NUMBER = "INSERT INTO owner_number (owner_id) VALUES ($1) ON CONFLICT (owner_id) DO NOTHING";
    /// Does not wait for the disk: whoever uses a number commits later, and a commit brings all before it to the disk.
    RESERVE_NUMBERS = "UPDATE owner_number SET last_number = last_number + $2 WHERE owner_id = $1 \
        RETURNING last_number, set_config('synchronous_commit', 'off', true)";
    /// Takes the owner's lock until the commit; the last thing that a batch waits for.
    ADVANCE_OWNER = "UPDATE owner SET last_position = last_position + $2, conflicts = conflicts + $3, \
        exchanges = exchanges + $4, parts = parts + $5, nodes = nodes + $6, bytes_in = bytes_in + $7, \
        part_bytes = part_bytes + $8, stored_bytes = stored_bytes + $9 WHERE owner_id = $1 \
        RETURNING last_position, parts, sweeps";
    STATS = "SELECT exchanges, parts, nodes, bytes_in, part_bytes, stored_bytes, conflicts FROM owner WHERE owner_id = $1";

    // Parts and chunks.
    FIND_PARTS = "SELECT found.hash, found.number FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (\
        SELECT hash, number FROM part WHERE owner_id = $1 AND hash = asked.hash LIMIT 1) AS found";
    INSERT_PARTS = "INSERT INTO part (owner_id, hash, number, length, codec, bytes) \
        SELECT $1, new.hash, new.number, new.length, new.codec, new.bytes \
        FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) \
        AS new (hash, number, length, codec, bytes) ON CONFLICT (owner_id, hash) DO NOTHING RETURNING hash, number";
    FIND_CHUNKS = "SELECT found.hash, found.number FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (\
        SELECT hash, number FROM chunk WHERE owner_id = $1 AND hash = asked.hash LIMIT 1) AS found";
    INSERT_CHUNKS = "INSERT INTO chunk (owner_id, hash, number, bytes) \
        SELECT $1, new.hash, new.number, new.bytes FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) \
        AS new (hash, number, bytes) ON CONFLICT (owner_id, hash) DO NOTHING RETURNING hash, number";
    READ_CHUNKS = "SELECT found.* FROM unnest($2::bigint[]) AS asked (number) CROSS JOIN LATERAL (\
        SELECT number, bytes FROM chunk WHERE owner_id = $1 AND number = asked.number LIMIT 1) AS found";
    READ_PARTS = "SELECT found.* FROM unnest($2::bigint[]) AS asked (number) CROSS JOIN LATERAL (\
        SELECT number, codec, length, bytes FROM part WHERE owner_id = $1 AND number = asked.number LIMIT 1) AS found";

    // Dictionaries.
    READ_DICTIONARIES = "SELECT number, bytes FROM dictionary WHERE owner_id = $1 AND number = ANY($2)";
    NEWEST_DICTIONARY = "SELECT number, bytes FROM dictionary WHERE owner_id = $1 ORDER BY number DESC LIMIT 1";
    /// Not if parts were removed since it was trained: it may know one of them. Waits for whoever removes some.
    INSERT_DICTIONARY = "INSERT INTO dictionary (owner_id, number, bytes) SELECT $1, $2, $3 FROM owner \
        WHERE owner_id = $1 AND sweeps = $4 FOR SHARE ON CONFLICT (owner_id, number) DO NOTHING";
    LATEST_PARTS = "SELECT number FROM (SELECT number, length FROM part WHERE owner_id = $1 ORDER BY number DESC LIMIT $2) \
        AS latest WHERE length <= $3";

    // Nodes.
    FIND_NODES = "SELECT found.* FROM unnest($2::bytea[]) AS asked (hash) CROSS JOIN LATERAL (\
        SELECT hash, seen_at, exchange FROM node WHERE owner_id = $1 AND hash = asked.hash LIMIT 1) AS found";
    INSERT_NODES = "INSERT INTO node (owner_id, hash, parent, value, depth, exchange, seen_at, in_answer) \
        SELECT $1, new.hash, new.parent, new.value, new.depth, new.exchange, new.seen_at, new.in_answer \
        FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[]) \
        AS new (hash, parent, value, depth, exchange, seen_at, in_answer) \
        ON CONFLICT (owner_id, hash) DO NOTHING RETURNING hash";
    /// Before nodes are corrected: two writers would correct those of each other in any order.
    LOCK_OWNER = "SELECT owner_id FROM owner WHERE owner_id = $1 FOR UPDATE";
    /// A node and its ancestors were seen earlier than was thought; stops at the first that was not.
    SEEN_EARLIER = "WITH RECURSIVE up AS (\
        SELECT NULL::bytea AS hash, $2::bytea AS parent \
        UNION ALL \
        SELECT node.hash, node.parent FROM node JOIN up ON node.hash = up.parent \
        WHERE node.owner_id = $1 AND (node.seen_at > $3 OR \
        node.seen_at = $3 AND node.exchange <> $4 AND ($6::bigint, $7 COLLATE \"C\") < (SELECT held.depth, first.id \
        FROM exchange first JOIN node held ON held.owner_id = $1 AND held.hash = first.input_node \
        WHERE first.owner_id = $1 AND first.number = node.exchange))) \
        UPDATE node SET seen_at = $3, exchange = $4, in_answer = $5 FROM up \
        WHERE node.owner_id = $1 AND node.hash = up.hash";

    // Exchanges.
    FIND_EXCHANGES = "SELECT found.* FROM unnest($2::text[]) AS asked (id) CROSS JOIN LATERAL (\
        SELECT e.id, e.number, e.request_sha256, e.response_sha256, e.at, e.keys, e.ended_at, e.session, e.hashes, \
        e.request_length + coalesce(e.response_length, 0), p.file, p.line, p.uuid, p.log_begun FROM exchange e \
        LEFT JOIN provenance p ON p.owner_id = $1 AND p.exchange = e.number \
        WHERE e.owner_id = $1 AND e.id = asked.id LIMIT 1) AS found";
    INSERT_EXCHANGES = concat!(
        "INSERT INTO exchange (owner_id, ", exchange_row!(), ") SELECT $1, new.* ", new_exchanges!(), " RETURNING number"
    );
    /// Only where there is no answer yet: another writer may have been faster.
    COMPLETE_EXCHANGES = concat!(
        "UPDATE exchange SET position = new.position, ended_at = new.ended_at, answered_at = new.answered_at, \
        cost_nano_usd = new.cost_nano_usd, response_length = new.response_length, status = new.status, \
        http_status = new.http_status, response_levels = new.response_levels, cost_is_estimate = new.cost_is_estimate, \
        model = coalesce(new.model, exchange.model), output_node = new.output_node, \
        response_sha256 = new.response_sha256, response_root = new.response_root, hashes = new.hashes, keys = new.keys, \
        usage = new.usage, projections = new.projections, detail = CASE WHEN new.detail = '' THEN exchange.detail ELSE new.detail END ",
        new_exchanges!(), " WHERE exchange.owner_id = $1 AND exchange.number = new.number \
        AND exchange.response_sha256 IS NULL RETURNING exchange.number"
    );
    INSERT_KEYS = "INSERT INTO exchange_key (owner_id, kind, hash, seen_at, exchange) SELECT $1, new.* \
        FROM unnest($2::smallint[], $3::bytea[], $4::bigint[], $5::bigint[]) AS new ON CONFLICT DO NOTHING";
    /// Rows to be given other hashes and keys, with what they have.
    PROJECTED = "SELECT found.* FROM unnest($2::bigint[]) AS asked (number) CROSS JOIN LATERAL (\
        SELECT number, at, answered_at, response_sha256, hashes, keys FROM exchange \
        WHERE owner_id = $1 AND number = asked.number LIMIT 1) AS found";
    PROJECT = "UPDATE exchange SET hashes = new.hashes, keys = new.keys, projections = new.projections \
        FROM unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::smallint[]) AS new (number, hashes, keys, projections) \
        WHERE exchange.owner_id = $1 AND exchange.number = new.number";
    DROP_KEYS = "DELETE FROM exchange_key USING unnest($2::smallint[], $3::bytea[], $4::bigint[]) \
        AS gone (kind, hash, exchange) WHERE exchange_key.owner_id = $1 AND exchange_key.kind = gone.kind \
        AND exchange_key.hash = gone.hash AND exchange_key.exchange = gone.exchange";
    INSERT_PROVENANCE = "INSERT INTO provenance (owner_id, exchange, file, line, uuid, aliases, log_begun) SELECT $1, new.* \
        FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[]) AS new ON CONFLICT DO NOTHING";

    // Reading exchanges.
    EXCHANGES_BY_NUMBER = concat!(
        "SELECT ", exchange_columns!(), "FROM unnest($3::bigint[]) AS asked (number) CROSS JOIN LATERAL (\
        SELECT * FROM exchange WHERE owner_id = $1 AND number = asked.number LIMIT 1) e", with_provenance!()
    );
    EXCHANGES_BY_ID = concat!(
        "SELECT ", exchange_columns!(), "FROM unnest($3::text[]) AS asked (id) CROSS JOIN LATERAL (\
        SELECT * FROM exchange WHERE owner_id = $1 AND id = asked.id LIMIT 1) e", with_provenance!()
    );
    EXCHANGES_SINCE = concat!(
        "SELECT ", exchange_columns!(), "FROM exchange e", with_provenance!(),
        "AND e.owner_id = $1 AND (e.at, e.number) > ($3, $4) ORDER BY e.at, e.number LIMIT $5"
    );
    EXCHANGES_NEWEST = concat!(
        "SELECT ", exchange_columns!(), "FROM exchange e", with_provenance!(),
        "AND e.owner_id = $1 AND (e.at, e.number) < ($3, $4) ORDER BY e.at DESC, e.number DESC LIMIT $5"
    );
    EXCHANGES_LOG = concat!(
        "SELECT ", exchange_columns!(), "FROM exchange e", with_provenance!(),
        "AND e.owner_id = $1 AND e.position > $3 ORDER BY e.position LIMIT $4"
    );
    /// Of one that lost something, the hash and length of what is left.
    READ_REQUEST = "SELECT coalesce(h.sha256, e.request_sha256), coalesce(h.length, e.request_length), e.request_levels, \
        e.request_root FROM exchange e LEFT JOIN hole h ON h.owner_id = $1 AND h.exchange = e.number \
        WHERE e.owner_id = $1 AND e.number = $2 AND e.request_levels >= 0";
    READ_RESPONSE = "SELECT response_sha256, response_length, response_levels, response_root FROM exchange \
        WHERE owner_id = $1 AND number = $2 AND response_sha256 IS NOT NULL AND response_levels >= 0";
    ENDING_IN_REQUEST = "SELECT asked.place, found.number FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY \
        AS asked (node, as_of, place) CROSS JOIN LATERAL (\
        SELECT number, at FROM exchange WHERE owner_id = $1 AND input_node = asked.node AND at <= asked.as_of \
        ORDER BY at DESC, number DESC LIMIT $4) AS found ORDER BY asked.place, found.at DESC, found.number DESC";
    ENDING_IN_ANSWER = "SELECT asked.place, found.number FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY \
        AS asked (node, as_of, place) CROSS JOIN LATERAL (\
        SELECT number, answered_at FROM exchange WHERE owner_id = $1 AND output_node = asked.node \
        AND answered_at <= asked.as_of ORDER BY answered_at DESC, number DESC LIMIT $4) AS found \
        ORDER BY asked.place, found.answered_at DESC, found.number DESC";
    WITH_KEY = "SELECT asked.place, found.exchange FROM unnest($2::smallint[], $3::bytea[], $4::bigint[]) \
        WITH ORDINALITY AS asked (kind, hash, as_of, place) CROSS JOIN LATERAL (SELECT exchange, seen_at FROM exchange_key \
        WHERE owner_id = $1 AND kind = asked.kind AND hash = asked.hash AND seen_at <= asked.as_of \
        ORDER BY seen_at DESC, exchange DESC LIMIT $5) AS found \
        ORDER BY asked.place, found.seen_at DESC, found.exchange DESC";

    // What people type.
    NODES_BEGINNING = "SELECT hash FROM node WHERE owner_id = $1 AND hash BETWEEN $2 AND $3 ORDER BY hash LIMIT $4";
    EXCHANGES_BEGINNING = "SELECT exchange FROM exchange_key WHERE owner_id = $1 AND kind = $5 \
        AND hash BETWEEN $2 AND $3 ORDER BY hash, seen_at, exchange LIMIT $4";
    CONVERSATIONS_BEGINNING = "SELECT id FROM conversation_alias WHERE owner_id = $1 AND id BETWEEN $2 AND $3 \
        ORDER BY id LIMIT $4";

    // Search.
    INSERT_WAITING_TEXTS = "INSERT INTO search_queue (owner_id, exchange, digest, source, at, part, text) SELECT $1, new.* \
        FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::text[]) AS new \
        ON CONFLICT DO NOTHING";
    WAITING_TEXTS = "SELECT count(*) FROM search_queue WHERE owner_id = $1";
    WAITING_OWNERS = "SELECT owner_id, count(*) FROM search_queue GROUP BY owner_id ORDER BY owner_id";
    TAKE_WAITING_TEXTS = "DELETE FROM search_queue WHERE owner_id = $1 AND (exchange, digest) IN (\
        SELECT exchange, digest FROM search_queue WHERE owner_id = $1 ORDER BY exchange, digest LIMIT $2 \
        FOR UPDATE SKIP LOCKED) RETURNING exchange, digest, source, at, part, text";
    INSERT_TEXTS = "INSERT INTO search_text (owner_id, exchange, digest, fragment, source, at, part, text, words) \
        SELECT $1, new.exchange, new.digest, new.fragment, new.source, new.at, new.part, \
        CASE WHEN new.part IS NULL THEN new.text END, to_tsvector('simple', new.text) \
        FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::smallint[], $6::bigint[], $7::bigint[], $8::text[]) \
        AS new (exchange, digest, fragment, source, at, part, text) ON CONFLICT DO NOTHING";
    SEARCH = "SELECT t.exchange, t.source, t.part, t.fragment, t.text FROM search_text t \
        WHERE t.owner_id = $1 AND t.words @@ websearch_to_tsquery('simple', $2) \
        AND ($3::smallint IS NULL OR t.source = $3) AND ($4::bigint IS NULL OR t.at >= $4) \
        AND ($5::text IS NULL OR EXISTS (SELECT 1 FROM exchange e \
        WHERE e.owner_id = $1 AND e.number = t.exchange AND e.model = $5)) \
        ORDER BY t.at DESC, t.exchange DESC, t.digest, t.fragment LIMIT $6";
    /// Reads no table: the texts were read for one owner before.
    HEADLINES = "SELECT ts_headline('simple', asked.text, websearch_to_tsquery('simple', $1), $3) \
        FROM unnest($2::text[]) WITH ORDINALITY AS asked (text, place) ORDER BY asked.place";

    // Checking.
    NODES_WITHOUT_PARENT = "SELECT n.hash FROM node n LEFT JOIN node p ON p.owner_id = $1 AND p.hash = n.parent \
        WHERE n.owner_id = $1 AND n.depth > 0 AND p.hash IS NULL LIMIT $2";
    NODES_OF_WRONG_DEPTH = "SELECT n.hash FROM node n JOIN node p ON p.owner_id = $1 AND p.hash = n.parent \
        WHERE n.owner_id = $1 AND n.depth <> p.depth + 1 LIMIT $2";
    NODES_OF_WRONG_HASH = "SELECT hash FROM node WHERE owner_id = $1 AND depth > 0 \
        AND hash IS DISTINCT FROM sha256('v1:node\\000'::bytea || parent || value) LIMIT $2";
    NODES_OF_NO_EXCHANGE = "SELECT n.hash FROM node n LEFT JOIN exchange e ON e.owner_id = $1 AND e.number = n.exchange \
        WHERE n.owner_id = $1 AND e.number IS NULL LIMIT $2";
    EXCHANGES_WITHOUT_NODE = "SELECT convert_to(e.id, 'UTF8') FROM exchange e \
        LEFT JOIN node i ON i.owner_id = $1 AND i.hash = e.input_node \
        LEFT JOIN node o ON o.owner_id = $1 AND o.hash = e.output_node \
        WHERE e.owner_id = $1 AND (i.hash IS NULL OR (e.output_node IS NOT NULL AND o.hash IS NULL)) LIMIT $2";
    KEYS_OF_NO_EXCHANGE = "SELECT k.hash FROM exchange_key k LEFT JOIN exchange e ON e.owner_id = $1 AND e.number = k.exchange \
        WHERE k.owner_id = $1 AND e.number IS NULL LIMIT $2";
    TEXTS_OF_NO_EXCHANGE = "SELECT int8send(t.exchange) FROM search_text t \
        LEFT JOIN exchange e ON e.owner_id = $1 AND e.number = t.exchange \
        WHERE t.owner_id = $1 AND e.number IS NULL LIMIT $2";
    ROPES = "SELECT e.number, e.id, coalesce(h.sha256, e.request_sha256), coalesce(h.length, e.request_length), e.request_levels, e.request_root, e.response_sha256, \
        e.response_length, e.response_levels, e.response_root, s.sha256, s.length, s.levels, s.root FROM exchange e \
        LEFT JOIN sent_body s ON s.owner_id = $1 AND s.exchange = e.number \
        LEFT JOIN hole h ON h.owner_id = $1 AND h.exchange = e.number WHERE e.owner_id = $1 AND e.number > $2 ORDER BY e.number LIMIT $3";
    PART_NUMBERS = "SELECT found.number FROM unnest($2::bigint[]) AS asked (number) CROSS JOIN LATERAL (\
        SELECT number FROM part WHERE owner_id = $1 AND number = asked.number LIMIT 1) AS found";
    PARTS_FROM = "SELECT number, hash, codec, length, bytes FROM part WHERE owner_id = $1 AND number > $2 \
        ORDER BY number LIMIT $3";
    COUNTED = "SELECT (SELECT count(*) FROM exchange WHERE owner_id = $1), (SELECT count(*) FROM part WHERE owner_id = $1), \
        (SELECT count(*) FROM node WHERE owner_id = $1), (SELECT count(*) FROM chunk WHERE owner_id = $1)";
}

#[cfg(test)]
mod tests {
    use super::super::backup::{NOT_COPIED, TABLES};
    use super::{ALL, derived, forget, log, names};

    /// Statements that name no owner, each for a reason.
    const WITHOUT_OWNER: [(&str, &str); 22] = [
        ("HAS_CITUS", "about the server"),
        ("OWNED_TABLES", "reads the catalogue"),
        ("DISTRIBUTED_TABLES", "reads the catalogue"),
        ("DISTRIBUTE_FIRST", "schema"),
        ("DISTRIBUTE_BESIDE", "schema"),
        ("NO_TIMEOUT_HERE", "about the transaction"),
        ("COLUMNS", "about the schema"),
        ("NEXT_OWNER", "behind the last owner"),
        ("STORE_SIZE", "about files"),
        ("NO_TIMEOUT", "about the connection"),
        ("VACUUM", "about files"),
        ("FORGET_PLANS", "about the connection"),
        ("LOCK_SCHEMA", "schema"),
        ("CREATE_SCHEMA_VERSION", "schema"),
        ("HAS_SCHEMA_VERSION", "schema"),
        ("SELECT_SCHEMA_VERSION", "schema"),
        ("INSERT_SCHEMA_VERSION", "schema"),
        ("FIND_OWNER", "finds the owner by name"),
        ("OWNERS", "lists who there is"),
        ("INSERT_OWNER_NAME", "makes the owner by name"),
        (
            "WAITING_OWNERS",
            "asks which owners have work; each is then served with its own filter",
        ),
        ("HEADLINES", "reads no table"),
    ];

    #[test]
    fn every_statement_filters_each_table_by_owner() {
        let findings: Vec<_> = ALL
            .iter()
            .chain(derived::ALL)
            .chain(forget::ALL)
            .chain(log::ALL)
            .chain(names::ALL)
            .filter(|(name, _)| !WITHOUT_OWNER.iter().any(|(allowed, _)| allowed == name))
            .filter(|(_, text)| !is_filtered(text))
            .map(|(name, _)| *name)
            .collect();
        assert!(findings.is_empty(), "no owner filter for every table: {findings:?}");
    }

    #[test]
    fn a_table_without_a_filter_is_found() {
        assert!(is_filtered("SELECT a FROM part WHERE owner_id = $1"));
        assert!(!is_filtered("SELECT a FROM part WHERE number = $1"));
        assert!(!is_filtered(
            "SELECT a FROM part JOIN chunk ON part.number = chunk.number WHERE part.owner_id = $1"
        ));
        assert!(!is_filtered("SELECT a FROM part WHERE owner_id IS NOT NULL"));
        assert!(is_filtered("INSERT INTO part (owner_id, number) SELECT $1, $2"));
        assert!(!is_filtered("INSERT INTO part (number, owner_id) SELECT $2, $1"));
        assert!(!is_filtered("UPDATE part SET number = 1"));
    }

    #[test]
    fn the_exceptions_still_exist() {
        for (name, _) in WITHOUT_OWNER {
            let is_there = ALL.iter().chain(forget::ALL).any(|(known, _)| *known == name);
            assert!(is_there, "{name} is gone");
        }
    }

    /// Statements elsewhere than here and in the modules of this one would escape the test above.
    #[test]
    fn no_other_file_holds_a_statement() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            if !is_source || path.ends_with("sql.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for verb in ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM"] {
                assert!(!text.contains(&format!("\"{verb}")), "{} holds SQL", path.display());
            }
        }
    }

    /// As many `owner_id = $1` as tables; a row that is inserted begins with the owner.
    fn is_filtered(statement: &str) -> bool {
        let words: Vec<&str> = statement
            .split(|c: char| c.is_whitespace() || "(),".contains(c))
            .filter(|word| !word.is_empty())
            .collect();
        // The directory of owners is read to learn who they are.
        let is_of_owners = |word: &str| word == NOT_COPIED || TABLES.contains(&word) && word != "owner_name";
        let follows = |word: &str| ["FROM", "JOIN", "UPDATE"].contains(&word);
        let read = words
            .windows(2)
            .filter(|pair| follows(pair[0]) && is_of_owners(pair[1]))
            .count();
        let filters = statement.matches("owner_id = $1").count();
        let inserts = statement.matches("INSERT INTO").count();
        let inserts_for_owner = statement.matches("(owner_id").count() > 0
            && (statement.contains("SELECT $1") || statement.contains("VALUES ($1"));
        filters >= read && (inserts == 0 || inserts_for_owner) && read + inserts > 0
    }
}
