-- What was forgotten. `sweeps` counts how often parts were removed: who remembers some from before one has to look again.
ALTER TABLE owner ADD COLUMN sweeps bigint NOT NULL DEFAULT 0;

-- Keyed hashes of what is not to come back.
CREATE TABLE tombstone (
    owner_id bigint NOT NULL,
    hash bytea NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (owner_id, hash)
);

-- Exchanges that lost something: the decision that linked them while all of it was there, and what is left of their requests. A
-- body that is gone has -1 levels.
CREATE TABLE hole (
    owner_id bigint NOT NULL,
    exchange bigint NOT NULL,
    parent bigint,
    length bigint,
    kind smallint,
    decision bytea,
    sha256 bytea,
    PRIMARY KEY (owner_id, exchange)
);
