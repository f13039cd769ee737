-- Who made an exchange's hashes and keys. What was written before, or is by older programs, has no version: 0 is older than any.
ALTER TABLE exchange ADD COLUMN projections smallint NOT NULL DEFAULT 0;
