-- procrastinate-3.10.0.sql makes them again, with all that belongs to them.
DROP FUNCTION procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[]);
DROP TYPE procrastinate_job_to_defer_v1;

DROP INDEX ix_notice_target;
DROP INDEX ix_agent_run_runnable;
CREATE INDEX ix_agent_run_runnable ON agent_run (look_at)
    WHERE inputs > heard AND status IN ('working', 'pending_approval');
DROP INDEX ix_tool_call_to_do;
DROP INDEX ix_tool_call_ready;
CREATE INDEX ix_tool_call_runnable ON tool_call (created_at) WHERE state IN ('new', 'ready', 'refused');
CREATE INDEX ix_tool_call_unannounced ON tool_call (created_at) WHERE state = 'asked' AND announced_at IS NULL;
DROP TRIGGER tool_call_fill_agent ON tool_call;
DROP FUNCTION fill_agent();
ALTER TABLE tool_call DROP COLUMN agent;

CREATE OR REPLACE VIEW works_with AS SELECT '0006'::text AS version, '0002'::text AS oldest;
