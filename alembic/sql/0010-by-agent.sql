CREATE INDEX ix_agent_run_agent ON agent_run (agent, status, id);
CREATE INDEX ix_approval_request_by_agent ON approval_request (agent, status, id);
CREATE INDEX ix_tool_call_open ON tool_call (agent, state, run_id) WHERE state <> 'answered';

CREATE OR REPLACE VIEW works_with AS SELECT '0010'::text AS version, '0002'::text AS oldest;
