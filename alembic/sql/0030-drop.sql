ALTER TABLE judgement DROP COLUMN revision, DROP COLUMN grant_id, DROP COLUMN ruled, DROP COLUMN ruled_by;

CREATE OR REPLACE VIEW works_with AS SELECT '0029'::text AS version, '0002'::text AS oldest;
