//! Statements about spawning calls and about what linking concluded.

macro_rules! link_columns {
    () => {
        "l.exchange, l.at, l.kind, l.conversation, l.branch, l.agent, l.parent, l.decision "
    };
}

macro_rules! conversation_columns {
    () => {
        "c.root, c.id, c.started_at, c.last_at, c.record "
    };
}

statements! {
    // Spawning calls.
    INSERT_SPAWNS = "INSERT INTO spawn (owner_id, exchange, idx, call, name, prompt, at) SELECT $1, new.* \
        FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bytea[], $7::bigint[]) AS new \
        ON CONFLICT DO NOTHING";
    SPAWNS_OF = "SELECT asked.place, found.* FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (exchange, place) \
        CROSS JOIN LATERAL (SELECT exchange, idx, call, name, prompt, at FROM spawn WHERE owner_id = $1 \
        AND exchange = asked.exchange AND at <= $3 ORDER BY idx LIMIT $4) AS found ORDER BY asked.place, found.idx";
    SPAWNS_BETWEEN = "SELECT asked.place, found.* FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY \
        AS asked (first, last, place) CROSS JOIN LATERAL (SELECT exchange, idx, call, name, prompt, at FROM spawn \
        WHERE owner_id = $1 AND at BETWEEN asked.first AND asked.last ORDER BY at, exchange, idx LIMIT $4) AS found \
        ORDER BY asked.place, found.at, found.exchange, found.idx";

    // Chains.
    INPUT_NODE = "SELECT e.input_node, n.depth FROM exchange e JOIN node n ON n.owner_id = $1 AND n.hash = e.input_node \
        WHERE e.owner_id = $1 AND e.number = $2";
    /// From the last node towards the first: each step is one look-up, and as many are made as are asked for.
    CHAIN = "WITH RECURSIVE up AS (\
        SELECT hash, parent FROM node WHERE owner_id = $1 AND hash = $2 \
        UNION ALL \
        SELECT node.hash, node.parent FROM up CROSS JOIN LATERAL (\
        SELECT hash, parent FROM node WHERE owner_id = $1 AND hash = up.parent LIMIT 1) AS node) \
        SELECT hash FROM up LIMIT $3";

    // Saving.
    LINK_STATE = "SELECT link_version, linked_to, last_position, named_to FROM owner WHERE owner_id = $1";
    /// Who saves for the same owner waits here; other owners have other rows.
    LOCK_LINKS = "SELECT link_version FROM owner WHERE owner_id = $1 FOR UPDATE";
    TOUCH_LINKS = "UPDATE owner SET link_version = link_version + 1 WHERE owner_id = $1";
    ADVANCE_LINKS = "UPDATE owner SET link_version = link_version + 1, linked_to = $2 WHERE owner_id = $1";
    DROP_LINKS = "DELETE FROM link WHERE owner_id = $1";
    DROP_BRANCHES = "DELETE FROM branch WHERE owner_id = $1";
    DROP_CONVERSATIONS = "DELETE FROM conversation WHERE owner_id = $1";
    DROP_WANTED = "DELETE FROM wanted WHERE owner_id = $1";
    DROP_COURSES = "DELETE FROM course WHERE owner_id = $1";
    DELETE_COURSES = "DELETE FROM course WHERE owner_id = $1 AND root = ANY($2)";
    UPSERT_COURSE = "INSERT INTO course (owner_id, root, packed) VALUES ($1, $2, $3) \
        ON CONFLICT (owner_id, root) DO UPDATE SET packed = excluded.packed";
    DELETE_BRANCHES = "DELETE FROM branch USING unnest($2::bigint[]) AS gone (first) \
        WHERE branch.owner_id = $1 AND branch.first = gone.first";
    DELETE_CONVERSATIONS = "DELETE FROM conversation USING unnest($2::bigint[]) AS gone (root) \
        WHERE conversation.owner_id = $1 AND conversation.root = gone.root";
    UPSERT_LINKS = "INSERT INTO link (owner_id, exchange, at, kind, conversation, branch, agent, parent, decision) \
        SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], \
        $8::bigint[], $9::bytea[]) AS new ON CONFLICT (owner_id, exchange) DO UPDATE SET at = excluded.at, \
        kind = excluded.kind, conversation = excluded.conversation, branch = excluded.branch, agent = excluded.agent, \
        parent = excluded.parent, decision = excluded.decision RETURNING exchange";
    UPSERT_BRANCHES = "INSERT INTO branch (owner_id, first, conversation, shown, record) \
        SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bytea[]) AS new \
        ON CONFLICT (owner_id, first) DO UPDATE SET conversation = excluded.conversation, shown = excluded.shown, \
        record = excluded.record RETURNING first";
    UPSERT_CONVERSATIONS = "INSERT INTO conversation (owner_id, root, id, started_at, last_at, record) \
        SELECT $1, new.* FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[]) AS new \
        ON CONFLICT (owner_id, root) DO UPDATE SET id = excluded.id, started_at = excluded.started_at, \
        last_at = excluded.last_at, record = excluded.record RETURNING root";
    /// An id is made from its root, so one that is there leads to the same root.
    INSERT_ALIASES = "INSERT INTO conversation_alias (owner_id, id, root) \
        SELECT $1, new.* FROM unnest($2::bytea[], $3::bigint[]) AS new ON CONFLICT DO NOTHING";
    INSERT_WANTED = "INSERT INTO wanted (owner_id, hash, exchange) \
        SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[]) AS new ON CONFLICT DO NOTHING";

    // Reading.
    LINKS_OF = concat!(
        "SELECT ", link_columns!(), "FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (exchange, place) CROSS JOIN LATERAL (\
        SELECT * FROM link WHERE owner_id = $1 AND exchange = asked.exchange LIMIT 1) l ORDER BY asked.place"
    );
    CHILDREN = concat!(
        "SELECT ", link_columns!(), "FROM unnest($2::bigint[]) AS asked (parent) CROSS JOIN LATERAL (\
        SELECT * FROM link WHERE owner_id = $1 AND parent = asked.parent ORDER BY at, exchange LIMIT $3) l \
        ORDER BY l.at, l.exchange LIMIT $3"
    );
    LINKS_IN_CONVERSATION = concat!(
        "SELECT ", link_columns!(), "FROM link l WHERE l.owner_id = $1 AND l.conversation = $2 \
        AND (l.at, l.exchange) > ($3, $4) ORDER BY l.at, l.exchange LIMIT $5"
    );
    WANTING = "SELECT asked.place, found.exchange FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (hash, place) \
        CROSS JOIN LATERAL (SELECT exchange FROM wanted WHERE owner_id = $1 AND hash = asked.hash \
        ORDER BY exchange LIMIT $3) AS found ORDER BY asked.place, found.exchange";
    BRANCHES = "SELECT first, conversation, shown, record FROM branch WHERE owner_id = $1 AND conversation = $2 \
        ORDER BY first LIMIT $3";
    COURSE = "SELECT packed FROM course WHERE owner_id = $1 AND root = $2";
    CONVERSATIONS_OF = concat!(
        "SELECT ", conversation_columns!(), "FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (root, place) \
        CROSS JOIN LATERAL (SELECT * FROM conversation WHERE owner_id = $1 AND root = asked.root LIMIT 1) c \
        ORDER BY asked.place"
    );
    /// The exchange that an id was made from may have become part of another conversation.
    CONVERSATIONS_BY_ID = concat!(
        "SELECT ", conversation_columns!(), "FROM unnest($2::bytea[]) WITH ORDINALITY AS asked (id, place) \
        CROSS JOIN LATERAL (SELECT root FROM conversation_alias WHERE owner_id = $1 AND id = asked.id LIMIT 1) a \
        CROSS JOIN LATERAL (SELECT conversation FROM link WHERE owner_id = $1 AND exchange = a.root LIMIT 1) l \
        CROSS JOIN LATERAL (SELECT * FROM conversation WHERE owner_id = $1 AND root = l.conversation LIMIT 1) c \
        ORDER BY asked.place"
    );
    NEWEST_CONVERSATIONS = concat!(
        "SELECT ", conversation_columns!(), "FROM conversation c WHERE c.owner_id = $1 AND (c.last_at, c.root) < ($2, $3) \
        ORDER BY c.last_at DESC, c.root DESC LIMIT $4"
    );

    // Checking.
    LINKS_WITHOUT_TARGET = "SELECT l.exchange FROM link l \
        LEFT JOIN exchange e ON e.owner_id = $1 AND e.number = l.exchange \
        LEFT JOIN link r ON r.owner_id = $1 AND r.exchange = l.conversation \
        LEFT JOIN branch b ON b.owner_id = $1 AND b.first = l.branch AND b.conversation = l.conversation \
        LEFT JOIN link a ON a.owner_id = $1 AND a.exchange = l.agent \
        LEFT JOIN link p ON p.owner_id = $1 AND p.exchange = l.parent \
        WHERE l.owner_id = $1 AND (e.number IS NULL OR r.exchange IS NULL OR b.first IS NULL OR a.exchange IS NULL \
        OR (l.parent IS NOT NULL AND p.exchange IS NULL)) LIMIT $2";
    LINKS_WITHOUT_CONVERSATION = "SELECT l.exchange FROM link l \
        LEFT JOIN conversation c ON c.owner_id = $1 AND c.root = l.conversation \
        WHERE l.owner_id = $1 AND c.root IS NULL LIMIT $2";
    /// What is named by its first exchange has at least the link of that one.
    BRANCHES_WITHOUT_LINKS = "SELECT b.first FROM branch b LEFT JOIN link l ON l.owner_id = $1 AND l.exchange = b.first \
        AND l.branch = b.first AND l.conversation = b.conversation \
        WHERE b.owner_id = $1 AND l.exchange IS NULL LIMIT $2";
    CONVERSATIONS_WITHOUT_LINKS = "SELECT c.root FROM conversation c \
        LEFT JOIN link l ON l.owner_id = $1 AND l.exchange = c.root AND l.conversation = c.root \
        WHERE c.owner_id = $1 AND l.exchange IS NULL LIMIT $2";
    UNLINKED = "SELECT e.number FROM exchange e LEFT JOIN link l ON l.owner_id = $1 AND l.exchange = e.number \
        WHERE e.owner_id = $1 AND e.position <= (SELECT linked_to FROM owner WHERE owner_id = $1) \
        AND l.exchange IS NULL LIMIT $2";
    /// Pages through the parents of all links, one conversation after the other.
    PARENTS_FROM = "SELECT conversation, at, exchange, parent FROM link WHERE owner_id = $1 \
        AND (conversation, at, exchange) > ($2, $3, $4) ORDER BY conversation, at, exchange LIMIT $5";
}
