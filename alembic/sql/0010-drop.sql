DROP INDEX ix_tool_call_open;
DROP INDEX ix_approval_request_by_agent;
DROP INDEX ix_agent_run_agent;

CREATE OR REPLACE VIEW works_with AS SELECT '0009'::text AS version, '0002'::text AS oldest;
