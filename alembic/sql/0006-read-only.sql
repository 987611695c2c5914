-- Whether the tool of an attempt only reads: it has no effect that could be in doubt. A worker of a version before this one
-- does not say so; its attempt is treated as one with an effect.
ALTER TABLE execution ADD COLUMN read_only boolean DEFAULT false NOT NULL;

CREATE OR REPLACE VIEW works_with AS SELECT '0006'::text AS version, '0002'::text AS oldest;
