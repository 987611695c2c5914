ALTER TABLE agent_run ALTER COLUMN agent RESET (n_distinct);
ALTER TABLE approval_request ALTER COLUMN agent RESET (n_distinct);
ALTER TABLE tool_call ALTER COLUMN agent RESET (n_distinct);

CREATE OR REPLACE VIEW works_with AS SELECT '0015'::text AS version, '0002'::text AS oldest;
