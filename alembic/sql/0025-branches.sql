-- In which task of a function agent a call was proposed, as its how-manieth, where anything else was open beside it.
ALTER TABLE tool_call ADD COLUMN place text;
CREATE UNIQUE INDEX uq_tool_call_place ON tool_call (run_id, place) WHERE place IS NOT NULL;

-- Whether each answer wakes the run, and which lease belongs to a worker that knows what to do then.
ALTER TABLE agent_run ADD COLUMN branches boolean NOT NULL DEFAULT false;
ALTER TABLE agent_run ADD COLUMN branches_epoch bigint;

-- What an earlier version would do to such a run: it replays by number alone, and wakes it by its last answer only.
CREATE FUNCTION keep_branches() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lease_epoch > OLD.lease_epoch AND NEW.lease_worker IS NOT NULL
       AND NEW.branches_epoch IS DISTINCT FROM NEW.lease_epoch THEN
        RETURN NULL;  -- no lease; another worker takes it
    END IF;
    IF NEW.awaiting_calls < OLD.awaiting_calls AND NEW.inputs = OLD.inputs
       AND NEW.status IN ('working', 'pending_approval') THEN
        NEW.inputs := NEW.inputs + 1;
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER agent_run_keeps_branches BEFORE UPDATE ON agent_run
FOR EACH ROW WHEN (OLD.branches) EXECUTE FUNCTION keep_branches();

-- Calls that sleep are ready later, and are not read before.
CREATE INDEX ix_tool_call_due ON tool_call (agent, coalesce(retry_at, created_at)) WHERE state = 'ready';
DROP INDEX ix_tool_call_ready;

CREATE OR REPLACE VIEW works_with AS SELECT '0025'::text AS version, '0002'::text AS oldest;
