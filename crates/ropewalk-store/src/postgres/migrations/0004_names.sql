-- Names of conversations and messages are facts: they are never made again. `conversation` is where the name's exchange was linked
-- when it was last looked at; a reader asks the link.
ALTER TABLE owner ADD COLUMN named_to bigint NOT NULL DEFAULT 0;

CREATE TABLE conversation_name (
    owner_id bigint NOT NULL,
    friendly_id text COLLATE "C" NOT NULL,
    exchange bigint NOT NULL,
    conversation bigint NOT NULL,
    title text,
    PRIMARY KEY (owner_id, friendly_id)
);
CREATE INDEX conversation_name_exchange ON conversation_name (owner_id, exchange, friendly_id);
CREATE INDEX conversation_name_conversation ON conversation_name (owner_id, conversation);

CREATE TABLE message_name (
    owner_id bigint NOT NULL,
    name bigint NOT NULL,
    short_hash text COLLATE "C" NOT NULL,
    exchange bigint NOT NULL,
    node bigint NOT NULL,
    PRIMARY KEY (owner_id, name, short_hash)
);

-- What the references in a text were resolved to.
CREATE TABLE pin (
    owner_id bigint NOT NULL,
    key bytea NOT NULL,
    outcome text NOT NULL,
    PRIMARY KEY (owner_id, key)
);

-- What a provider got in a request's place.
CREATE TABLE sent_body (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    sha256 bytea NOT NULL,
    length bigint NOT NULL,
    levels smallint NOT NULL,
    root bytea NOT NULL,
    PRIMARY KEY (owner_id, exchange)
);
