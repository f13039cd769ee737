-- Facts: what was on the wire. `owner_id` leads every key and index, so that all tables but `owner_name` can be
-- distributed by it; nothing refers to another table by a foreign key, `check` does that work.

-- GIN indexes that begin with a plain column need it.
CREATE EXTENSION IF NOT EXISTS btree_gin;

-- The directory of owners: the only table that is asked without an owner.
CREATE TABLE owner_name (
    owner_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- One row that every batch updates last, under whose lock positions are given out, with totals beside them. Room is left
-- in its pages, so that an update stays on its page and touches no index.
CREATE TABLE owner (
    owner_id bigint PRIMARY KEY,
    secret bytea NOT NULL,
    last_position bigint NOT NULL DEFAULT 0,
    conflicts bigint NOT NULL DEFAULT 0,
    exchanges bigint NOT NULL DEFAULT 0,
    parts bigint NOT NULL DEFAULT 0,
    nodes bigint NOT NULL DEFAULT 0,
    bytes_in bigint NOT NULL DEFAULT 0,
    part_bytes bigint NOT NULL DEFAULT 0,
    stored_bytes bigint NOT NULL DEFAULT 0,
    link_version bigint NOT NULL DEFAULT 0,
    linked_to bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Numbers are taken in blocks, outside of the recording transaction, so that taking them waits for nobody's commit.
CREATE TABLE owner_number (
    owner_id bigint PRIMARY KEY,
    last_number bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE dictionary (
    owner_id bigint NOT NULL,
    number bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (owner_id, number)
);

CREATE TABLE part (
    owner_id bigint NOT NULL,
    number bigint NOT NULL,
    hash bytea NOT NULL,
    length bigint NOT NULL,
    codec bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (owner_id, number),
    UNIQUE (owner_id, hash)
);
-- The bytes are compressed already.
ALTER TABLE part ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Chunks of recipes. Their names are not hashes of their bytes, hence a table of their own.
CREATE TABLE chunk (
    owner_id bigint NOT NULL,
    number bigint NOT NULL,
    hash bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (owner_id, number),
    UNIQUE (owner_id, hash)
);

-- A node refers to its parent by hash: inserting is set union, in any order, by any number of writers.
CREATE TABLE node (
    owner_id bigint NOT NULL,
    hash bytea NOT NULL,
    parent bytea,
    value bytea,
    depth bigint NOT NULL,
    exchange bigint NOT NULL,
    seen_at bigint NOT NULL,
    in_answer boolean NOT NULL,
    PRIMARY KEY (owner_id, hash)
);

CREATE TABLE exchange (
    owner_id bigint NOT NULL,
    number bigint NOT NULL,
    position bigint NOT NULL,
    at bigint NOT NULL,
    ended_at bigint,
    answered_at bigint,
    cost_nano_usd bigint,
    request_length bigint NOT NULL,
    response_length bigint,
    rules_version bigint NOT NULL,
    status smallint NOT NULL,
    http_status smallint,
    request_levels smallint NOT NULL,
    response_levels smallint,
    cost_is_estimate boolean NOT NULL,
    id text COLLATE "C" NOT NULL,
    provider text NOT NULL,
    model text,
    kind text NOT NULL,
    session text,
    agent text,
    project text,
    input_node bytea NOT NULL,
    output_node bytea,
    request_sha256 bytea NOT NULL,
    response_sha256 bytea,
    request_root bytea NOT NULL,
    response_root bytea,
    hashes bytea NOT NULL,
    keys bytea NOT NULL,
    usage bytea,
    detail text NOT NULL,
    PRIMARY KEY (owner_id, number),
    UNIQUE (owner_id, id)
);
CREATE UNIQUE INDEX exchange_position ON exchange (owner_id, position);
CREATE INDEX exchange_at ON exchange (owner_id, at, number);
CREATE INDEX exchange_input ON exchange (owner_id, input_node, at, number);
CREATE INDEX exchange_output ON exchange (owner_id, output_node, answered_at, number) WHERE output_node IS NOT NULL;

CREATE TABLE exchange_key (
    owner_id bigint NOT NULL,
    kind smallint NOT NULL,
    hash bytea NOT NULL,
    seen_at bigint NOT NULL,
    exchange bigint NOT NULL,
    PRIMARY KEY (owner_id, kind, hash, seen_at, exchange)
);

CREATE TABLE provenance (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    file text NOT NULL,
    line bigint NOT NULL,
    uuid text,
    aliases text NOT NULL,
    PRIMARY KEY (owner_id, exchange)
);

-- The calls in answers that start agents.
CREATE TABLE spawn (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    idx bigint NOT NULL,
    call text,
    name text,
    prompt bytea,
    at bigint NOT NULL,
    PRIMARY KEY (owner_id, exchange, idx)
);
CREATE INDEX spawn_at ON spawn (owner_id, at, exchange, idx);

-- What linking concluded. All of it but the aliases can be dropped and computed again. A conversation is named by its root
-- exchange, a branch and an agent by their first exchange.
CREATE TABLE link (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    at bigint NOT NULL,
    conversation bigint NOT NULL,
    branch bigint NOT NULL,
    agent bigint NOT NULL,
    parent bigint,
    kind smallint NOT NULL,
    decision bytea NOT NULL,
    PRIMARY KEY (owner_id, exchange)
);
CREATE INDEX link_conversation ON link (owner_id, conversation, at, exchange);
CREATE INDEX link_parent ON link (owner_id, parent, at, exchange) WHERE parent IS NOT NULL;

CREATE TABLE branch (
    owner_id bigint NOT NULL,
    first bigint NOT NULL,
    conversation bigint NOT NULL,
    shown text NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (owner_id, first)
);
CREATE INDEX branch_conversation ON branch (owner_id, conversation, first);

CREATE TABLE conversation (
    owner_id bigint NOT NULL,
    root bigint NOT NULL,
    started_at bigint NOT NULL,
    last_at bigint NOT NULL,
    id bytea NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (owner_id, root)
);
CREATE INDEX conversation_last_at ON conversation (owner_id, last_at, root);

-- Every id that a conversation ever had, and the exchange that the id was made from.
CREATE TABLE conversation_alias (
    owner_id bigint NOT NULL,
    id bytea NOT NULL,
    root bigint NOT NULL,
    PRIMARY KEY (owner_id, id)
);

-- First eight bytes of the hashes that exchanges wait for.
CREATE TABLE wanted (
    owner_id bigint NOT NULL,
    hash bigint NOT NULL,
    exchange bigint NOT NULL,
    PRIMARY KEY (owner_id, hash, exchange)
);

-- Texts that wait for the index. One that is a part as well is not written twice.
CREATE TABLE search_queue (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    digest bigint NOT NULL,
    source smallint NOT NULL,
    at bigint NOT NULL,
    part bigint,
    text text,
    PRIMARY KEY (owner_id, exchange, digest)
);

CREATE TABLE search_text (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    digest bigint NOT NULL,
    fragment integer NOT NULL,
    source smallint NOT NULL,
    at bigint NOT NULL,
    part bigint,
    text text,
    words tsvector NOT NULL,
    PRIMARY KEY (owner_id, exchange, digest, fragment)
);
CREATE INDEX search_text_words ON search_text USING gin (owner_id, words);
