-- When a log was begun that tells of a call: who passed the call on has none, and outranks it.
ALTER TABLE provenance ADD COLUMN log_begun bigint;

-- The tree of a log's records. Names are compared by their bytes, as everywhere else.
CREATE TABLE record (
    owner_id bigint NOT NULL,
    session text COLLATE "C" NOT NULL,
    uuid text COLLATE "C" NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (owner_id, session, uuid)
);

-- How far files were read.
CREATE TABLE imported_file (
    owner_id bigint NOT NULL,
    path text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    modified bigint NOT NULL,
    tail bytea NOT NULL,
    position bigint NOT NULL,
    problems bigint NOT NULL,
    PRIMARY KEY (owner_id, path)
);
