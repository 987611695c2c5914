CREATE INDEX ix_tool_call_ready ON tool_call (agent, created_at) WHERE state = 'ready';
DROP INDEX ix_tool_call_due;

DROP TRIGGER agent_run_keeps_branches ON agent_run;
DROP FUNCTION keep_branches();
ALTER TABLE agent_run DROP COLUMN branches_epoch;
ALTER TABLE agent_run DROP COLUMN branches;

DROP INDEX uq_tool_call_place;
ALTER TABLE tool_call DROP COLUMN place;

CREATE OR REPLACE VIEW works_with AS SELECT '0024'::text AS version, '0002'::text AS oldest;
