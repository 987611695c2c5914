ALTER TABLE approval_request DROP COLUMN handed_over_at;

CREATE OR REPLACE VIEW works_with AS SELECT '0012'::text AS version, '0002'::text AS oldest;
