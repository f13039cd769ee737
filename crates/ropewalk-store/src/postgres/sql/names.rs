//! Statements about names, pins, and bodies that were sent in a request's place.

macro_rules! name_columns {
    () => {
        "found.exchange, found.friendly_id, found.title "
    };
}

statements! {
    /// Gives back those that are new.
    INSERT_NAMES = "INSERT INTO conversation_name (owner_id, friendly_id, exchange, conversation, title) SELECT $1, new.* \
        FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[]) AS new \
        ON CONFLICT (owner_id, friendly_id) DO NOTHING RETURNING friendly_id";
    INSERT_MESSAGE_NAMES = "INSERT INTO message_name (owner_id, name, short_hash, exchange, node) SELECT $1, new.* \
        FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) AS new \
        ON CONFLICT (owner_id, name, short_hash) DO NOTHING";
    SET_TITLES = "UPDATE conversation_name SET title = new.title FROM unnest($2::bigint[], $3::text[]) AS new (exchange, title) \
        WHERE conversation_name.owner_id = $1 AND conversation_name.exchange = new.exchange";
    ADVANCE_NAMES = "UPDATE owner SET named_to = greatest(named_to, $2) WHERE owner_id = $1";
    /// Names go where their exchanges went.
    FOLLOW_NAMES = "UPDATE conversation_name SET conversation = l.conversation \
        FROM unnest($2::bigint[]) AS gone (root), link l WHERE conversation_name.owner_id = $1 \
        AND conversation_name.conversation = gone.root AND l.owner_id = $1 AND l.exchange = conversation_name.exchange";
    FOLLOW_ALL_NAMES = "UPDATE conversation_name SET conversation = l.conversation FROM link l \
        WHERE conversation_name.owner_id = $1 AND l.owner_id = $1 AND l.exchange = conversation_name.exchange";
    NAMES_BY_ID = concat!(
        "SELECT ", name_columns!(), "FROM unnest($2::text[]) WITH ORDINALITY AS asked (id, place) CROSS JOIN LATERAL (\
        SELECT exchange, friendly_id, title FROM conversation_name WHERE owner_id = $1 AND friendly_id = asked.id LIMIT 1) \
        AS found ORDER BY asked.place"
    );
    NAMES_MINTED_FOR = concat!(
        "SELECT ", name_columns!(), "FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (exchange, place) \
        CROSS JOIN LATERAL (SELECT exchange, friendly_id, title FROM conversation_name WHERE owner_id = $1 \
        AND exchange = asked.exchange ORDER BY friendly_id LIMIT $3) AS found ORDER BY asked.place, found.friendly_id"
    );
    /// What is written down as the conversation may be old; where the exchange is linked is not.
    NAMES_OF_CONVERSATIONS = concat!(
        "SELECT ", name_columns!(), "FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (root, place) \
        CROSS JOIN LATERAL ((SELECT exchange, friendly_id, title FROM conversation_name WHERE owner_id = $1 \
        AND conversation = asked.root LIMIT $3) UNION (SELECT exchange, friendly_id, title FROM conversation_name \
        WHERE owner_id = $1 AND exchange = asked.root LIMIT $3)) AS found \
        CROSS JOIN LATERAL (SELECT conversation FROM link WHERE owner_id = $1 AND exchange = found.exchange LIMIT 1) AS l \
        WHERE l.conversation = asked.root ORDER BY asked.place, found.exchange, found.friendly_id"
    );
    NAMES_BEGINNING = "SELECT exchange, friendly_id, title FROM conversation_name WHERE owner_id = $1 \
        AND friendly_id >= $2 AND friendly_id < $5 AND friendly_id > $3 AND starts_with(friendly_id, $2) \
        ORDER BY friendly_id LIMIT $4";
    MESSAGES_NAMED = "SELECT found.name, found.short_hash, found.exchange, found.node \
        FROM unnest($2::bigint[], $3::text[]) WITH ORDINALITY AS asked (name, hash, place) CROSS JOIN LATERAL (\
        SELECT name, short_hash, exchange, node FROM message_name WHERE owner_id = $1 AND name = asked.name \
        AND short_hash = asked.hash LIMIT 1) AS found ORDER BY asked.place";
    MESSAGE_NAMES_OF = "SELECT name, short_hash, exchange, node FROM message_name WHERE owner_id = $1 AND name = $2 \
        AND short_hash > $3 ORDER BY short_hash LIMIT $4";
    INSERT_PINS = "INSERT INTO pin (owner_id, key, outcome) SELECT $1, new.* FROM unnest($2::bytea[], $3::text[]) AS new \
        ON CONFLICT (owner_id, key) DO NOTHING";
    PINS = "SELECT found.key, found.outcome FROM unnest($2::bytea[]) WITH ORDINALITY AS asked (key, place) \
        CROSS JOIN LATERAL (SELECT key, outcome FROM pin WHERE owner_id = $1 AND key = asked.key LIMIT 1) AS found \
        ORDER BY asked.place";
    INSERT_SENT = "INSERT INTO sent_body (owner_id, exchange, sha256, length, levels, root) SELECT $1, new.* \
        FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bytea[]) AS new \
        ON CONFLICT (owner_id, exchange) DO NOTHING";
    READ_SENT = "SELECT sha256, length, levels, root FROM sent_body WHERE owner_id = $1 AND exchange = $2";
}
