ALTER TABLE digest_card ADD COLUMN outdated boolean DEFAULT false NOT NULL;

CREATE OR REPLACE VIEW works_with AS SELECT '0015'::text AS version, '0002'::text AS oldest;
