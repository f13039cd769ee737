-- How long conversations go on, for whoever reads a page of one. Derived.
CREATE TABLE course (
    owner_id bigint NOT NULL,
    root bigint NOT NULL,
    packed bytea NOT NULL,
    PRIMARY KEY (owner_id, root)
);
