ALTER TABLE digest_card DROP COLUMN outdated;

CREATE OR REPLACE VIEW works_with AS SELECT '0014'::text AS version, '0002'::text AS oldest;
