ALTER TABLE tool_call DROP COLUMN retry_at;

CREATE OR REPLACE VIEW works_with AS SELECT '0019'::text AS version, '0002'::text AS oldest;
