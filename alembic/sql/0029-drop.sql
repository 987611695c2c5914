ALTER TABLE approval_request DROP COLUMN rejected_before;

CREATE OR REPLACE VIEW works_with AS SELECT '0028'::text AS version, '0002'::text AS oldest;
