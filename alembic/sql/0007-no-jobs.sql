-- Whoever waits for one of these locks holds up everybody behind it: give way, and try again.
DO $$
BEGIN
    FOR attempt IN 1..100 LOOP
        BEGIN
            SET LOCAL lock_timeout = '500ms';
            LOCK TABLE tool_call, agent_run, notice, procrastinate_jobs, procrastinate_events,
                procrastinate_periodic_defers, procrastinate_workers IN ACCESS EXCLUSIVE MODE;
            SET LOCAL lock_timeout = DEFAULT;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    RAISE EXCEPTION 'tables are in use all the time; stop the service''s processes and try again'
        USING ERRCODE = 'lock_not_available';
END;
$$;

-- A call has the agent of its run, so that what is to be done for an agent is found through an index, however much there
-- is to do for others. Nothing is left to do about answered calls, so older ones do not get it.
ALTER TABLE tool_call ADD COLUMN agent text;
UPDATE tool_call AS c SET agent = r.agent FROM agent_run AS r WHERE r.id = c.run_id AND c.state <> 'answered';
ALTER TABLE tool_call ADD CONSTRAINT ck_tool_call_open_with_agent CHECK (state = 'answered' OR agent IS NOT NULL);

-- Processes of version 0006 and before keep working during the rollout and do not write the column: the trigger does it for
-- them. Rows of this version arrive complete and pass it by. The first version that no longer works with 0006 drops it.
CREATE FUNCTION fill_agent() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.agent := (SELECT agent FROM agent_run WHERE id = NEW.run_id);
    RETURN NEW;
END;
$$;
CREATE TRIGGER tool_call_fill_agent
    BEFORE INSERT ON tool_call FOR EACH ROW WHEN (NEW.agent IS NULL) EXECUTE FUNCTION fill_agent();

DROP INDEX ix_tool_call_runnable;
DROP INDEX ix_tool_call_unannounced;
CREATE INDEX ix_tool_call_ready ON tool_call (agent, created_at) WHERE state = 'ready';
CREATE INDEX ix_tool_call_to_do ON tool_call (agent, created_at)
    WHERE state IN ('new', 'refused') OR (state = 'asked' AND announced_at IS NULL);
DROP INDEX ix_agent_run_runnable;
CREATE INDEX ix_agent_run_runnable ON agent_run (agent, coalesce(look_at, created_at))
    WHERE inputs > heard AND status IN ('working', 'pending_approval');
CREATE INDEX ix_notice_target ON notice (webhook_id, next_at) WHERE state = 'pending';

-- What is to be done is found by looking at the tables above, so there are no jobs any more. Older processes defer jobs in
-- the transactions of their facts: they still can, and it does nothing. Their workers find no function to fetch jobs with,
-- say so in their logs, and begin nothing more.
CREATE OR REPLACE FUNCTION procrastinate_defer_jobs_v1(jobs procrastinate_job_to_defer_v1[])
    RETURNS bigint[] LANGUAGE sql AS $$ SELECT array_fill(0::bigint, ARRAY[cardinality(jobs)]) $$;

DROP FUNCTION procrastinate_fetch_job_v2(character varying[], bigint);
DROP TABLE procrastinate_events;
DROP TABLE procrastinate_periodic_defers;
DROP TABLE procrastinate_jobs;
DROP TABLE procrastinate_workers;
DROP FUNCTION procrastinate_defer_periodic_job_v2(
    character varying, character varying, character varying, character varying, integer, character varying, bigint, jsonb
);
DROP FUNCTION procrastinate_finish_job_v1(bigint, procrastinate_job_status, boolean);
DROP FUNCTION procrastinate_cancel_job_v1(bigint, boolean, boolean);
DROP FUNCTION procrastinate_retry_job_v1(
    bigint, timestamp with time zone, integer, character varying, character varying
);
DROP FUNCTION procrastinate_retry_job_v2(
    bigint, timestamp with time zone, integer, character varying, character varying
);
DROP FUNCTION procrastinate_notify_queue_job_inserted_v1();
DROP FUNCTION procrastinate_notify_queue_abort_job_v1();
DROP FUNCTION procrastinate_trigger_function_status_events_insert_v1();
DROP FUNCTION procrastinate_trigger_function_status_events_update_v1();
DROP FUNCTION procrastinate_trigger_function_scheduled_events_v1();
DROP FUNCTION procrastinate_trigger_abort_requested_events_procedure_v1();
DROP FUNCTION procrastinate_unlink_periodic_defers_v1();
DROP FUNCTION procrastinate_register_worker_v1();
DROP FUNCTION procrastinate_unregister_worker_v1(bigint);
DROP FUNCTION procrastinate_update_heartbeat_v1(bigint);
DROP FUNCTION procrastinate_prune_stalled_workers_v1(double precision);
DROP TYPE procrastinate_job_event_type;
DROP TYPE procrastinate_job_status;

CREATE OR REPLACE VIEW works_with AS SELECT '0007'::text AS version, '0002'::text AS oldest;
