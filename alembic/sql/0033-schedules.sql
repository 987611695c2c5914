-- Agents that are started again and again, on behalf of the person who answers for it.
CREATE TABLE schedule (
    id uuid CONSTRAINT pk_schedule PRIMARY KEY,
    agent text NOT NULL,
    task text NOT NULL,
    cron text NOT NULL,
    timezone text NOT NULL,
    label text,
    requester_team_id text NOT NULL,
    requester_user_id text NOT NULL,
    channel_id text,
    grace_seconds double precision NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at timestamptz,
    CONSTRAINT ck_schedule_grace_not_negative CHECK (grace_seconds >= 0)
);
CREATE INDEX ix_schedule_due ON schedule (next_at) WHERE next_at IS NOT NULL;

-- Each time comes once, to one process; where nothing was begun then, the run has failed and can be resumed.
CREATE TABLE schedule_start (
    schedule_id uuid CONSTRAINT fk_schedule_start_schedule REFERENCES schedule (id) ON DELETE CASCADE,
    due_at timestamptz,
    run_id uuid NOT NULL,
    missed text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_schedule_start PRIMARY KEY (schedule_id, due_at)
);
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON schedule, schedule_start TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0033'::text AS version, '0002'::text AS oldest;
