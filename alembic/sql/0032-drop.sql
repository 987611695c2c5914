ALTER TABLE agent_run DROP COLUMN label;

CREATE OR REPLACE VIEW works_with AS SELECT '0031'::text AS version, '0002'::text AS oldest;
