-- Runs of agents, what is said in them, the calls that they propose, and the schedules that start them.

CREATE TYPE run_status AS ENUM ('working', 'pending_approval', 'completed', 'denied', 'failed', 'cancelled');
CREATE TYPE message_role AS ENUM ('user', 'assistant', 'note');
CREATE TYPE call_state AS ENUM ('new', 'asked', 'ready', 'refused', 'claimed', 'delegated', 'in_doubt', 'answered');
CREATE TYPE answer_kind AS ENUM (
    'result', 'error', 'nothing_done', 'not_stored', 'rejected', 'expired', 'withdrawn', 'denied', 'malformed',
    'unknown_tool', 'stopped', 'done_by_person', 'answered'
);

CREATE TABLE agent_run (
    id uuid NOT NULL,
    parent_run_id uuid,
    parent_call_id uuid,
    agent text NOT NULL,
    agent_version text NOT NULL,
    task text NOT NULL,
    principal text NOT NULL,
    start_key text,
    session_id text,
    program_user text,
    requester_team_id text,
    requester_user_id text,
    requester_asserted text NOT NULL,
    team_id text,
    channel_id text,
    thread_ts text,
    status run_status DEFAULT 'working' NOT NULL,
    cause text,
    answer text,
    progress text,
    turn integer DEFAULT 0 NOT NULL,
    steps integer DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    tokens_before bigint DEFAULT 0 NOT NULL,
    inputs integer DEFAULT 0 NOT NULL,
    heard integer DEFAULT 0 NOT NULL,
    awaiting_calls integer DEFAULT 0 NOT NULL,
    model_failures integer DEFAULT 0 NOT NULL,
    look_at timestamptz,
    lease_epoch bigint DEFAULT 0 NOT NULL,
    lease_until timestamptz,
    lease_worker text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    erased_at timestamptz,
    -- The ancestors of a run never change, so they are stored with it: ids and agents of the runs that handed the task
    -- down, the root first and the parent last. A root has none.
    ancestor_ids uuid[] DEFAULT '{}' NOT NULL,
    ancestor_agents text[] DEFAULT '{}' NOT NULL,
    -- No foreign key: keys are revoked and never deleted, and its check would lock the key's row at every insert.
    api_key_id uuid,
    -- Whether each answer wakes the run, or only the last one.
    branches boolean DEFAULT false NOT NULL,
    -- Free text beside the name of a run's agent: who started it, or the agent, calls it so.
    label text,
    CONSTRAINT pk_agent_run PRIMARY KEY (id),
    CONSTRAINT uq_agent_run_start_key UNIQUE (start_key),
    CONSTRAINT ck_agent_run_heard_within_inputs CHECK (heard <= inputs),
    CONSTRAINT ck_agent_run_awaiting_not_negative CHECK (awaiting_calls >= 0),
    CONSTRAINT ck_agent_run_requester_with_team CHECK ((requester_user_id IS NULL) = (requester_team_id IS NULL)),
    CONSTRAINT ck_agent_run_lease_whole CHECK ((lease_until IS NULL) = (lease_worker IS NULL)),
    CONSTRAINT ck_agent_run_ended_badly_with_cause CHECK (status NOT IN ('denied', 'failed') OR cause IS NOT NULL),
    CONSTRAINT ck_agent_run_last_ancestor_is_parent
        CHECK (ancestor_ids[cardinality(ancestor_ids)] IS NOT DISTINCT FROM parent_run_id),
    CONSTRAINT ck_agent_run_every_ancestor_named CHECK (cardinality(ancestor_ids) = cardinality(ancestor_agents)),
    CONSTRAINT ck_agent_run_label_is_short CHECK (char_length(label) BETWEEN 1 AND 80),
    CONSTRAINT fk_agent_run_parent_run_id FOREIGN KEY (parent_run_id) REFERENCES agent_run (id)
);
-- Where one agent has nearly all rows, PostgreSQL expects the newest rows of any agent soon, walks back through the
-- primary key, and reads the whole table for an agent that has none. The next ANALYZE takes this number over.
ALTER TABLE agent_run ALTER COLUMN agent SET (n_distinct = 1000);

CREATE INDEX ix_agent_run_leased ON agent_run (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX ix_agent_run_over ON agent_run (team_id, status, id) WHERE status NOT IN ('working', 'pending_approval');
CREATE INDEX ix_agent_run_parent ON agent_run (parent_run_id);
CREATE INDEX ix_agent_run_at_work ON agent_run (team_id, id) WHERE status IN ('working', 'pending_approval');
CREATE INDEX ix_agent_run_principal ON agent_run (principal, id);
CREATE INDEX ix_agent_run_session ON agent_run (principal, session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX ix_agent_run_team ON agent_run (team_id, id);
CREATE UNIQUE INDEX ix_agent_run_thread ON agent_run (team_id, channel_id, thread_ts);
CREATE INDEX ix_agent_run_runnable ON agent_run (agent, coalesce(look_at, created_at))
    WHERE inputs > heard AND status IN ('working', 'pending_approval');
CREATE INDEX ix_agent_run_agent ON agent_run (agent, status, id);

CREATE TRIGGER agent_run_origin_stays
    BEFORE UPDATE OF parent_run_id, parent_call_id, ancestor_ids, ancestor_agents, api_key_id ON agent_run
    FOR EACH ROW EXECUTE FUNCTION refuse_change('where a run comes from never changes');

CREATE TABLE run_message (
    run_id uuid NOT NULL,
    seq integer NOT NULL,
    turn integer NOT NULL,
    role message_role NOT NULL,
    text text,
    author_team_id text,
    author_user_id text,
    source_key text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_run_message PRIMARY KEY (run_id, seq),
    CONSTRAINT uq_run_message_source_key UNIQUE (source_key),
    CONSTRAINT ck_run_message_seq_from_one CHECK (seq >= 1),
    CONSTRAINT fk_run_message_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE
);

-- Who carries an action out: the service, another program, or nobody, because there is only a question to answer.
CREATE TYPE call_executor AS ENUM ('here', 'program', 'none');

-- An action that somebody proposes: a turn of a run, or a program under a name of its own.
CREATE TABLE tool_call (
    id uuid NOT NULL,
    run_id uuid,
    turn integer,
    index smallint,
    model_call_id text,
    tool text NOT NULL,
    raw_arguments text,
    tool_version text,
    action bytea,
    digest bytea,
    state call_state DEFAULT 'new' NOT NULL,
    blocking boolean NOT NULL,
    ask_no smallint DEFAULT 0 NOT NULL,
    repeats uuid,
    announced_at timestamptz,
    held bytea,
    answer_kind answer_kind,
    answer text,
    answered_at timestamptz,
    lease_until timestamptz,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    -- That of a run, so that what is to be done for an agent is found through an index, however much there is to do
    -- for others.
    agent text NOT NULL,
    retry_at timestamptz,
    -- In which task of a function agent a call was proposed, as its how-manieth, where anything else was open beside it.
    place text,
    executor call_executor NOT NULL,
    -- The only key whose program may execute what a run proposed; NULL is any that may execute.
    executor_key text,
    -- Until when the program that executes it may begin, and when that time was over.
    lapse_at timestamptz,
    lapsed_at timestamptz,
    -- When the program that proposed it first read that it is approved: from then on it may act without a claim.
    handed_over_at timestamptz,
    -- A program's key, its name for the action, all that it sent, and its name for the conversation. One name stands for
    -- one action, however often people are asked about it.
    principal text,
    client_id text,
    content_digest bytea,
    session text,
    CONSTRAINT pk_tool_call PRIMARY KEY (id),
    CONSTRAINT uq_tool_call_run_id_turn_index UNIQUE (run_id, turn, index),
    CONSTRAINT uq_tool_call_principal_client_id UNIQUE (principal, client_id),
    -- What an attempt refers to: it is made by the executor of its call.
    CONSTRAINT uq_tool_call_id_executor UNIQUE (id, executor),
    CONSTRAINT ck_tool_call_one_proposer CHECK (
        CASE WHEN run_id IS NOT NULL
             THEN num_nulls(turn, index, model_call_id, raw_arguments) = 0
                  AND num_nonnulls(principal, client_id, content_digest, session, handed_over_at) = 0
             ELSE num_nonnulls(turn, index, model_call_id, raw_arguments, action, held, repeats, place) = 0
                  AND num_nulls(principal, client_id, content_digest) = 0 AND NOT blocking END),
    -- What programs propose is never executed here, and what runs propose is executed.
    CONSTRAINT ck_tool_call_executor_fits
        CHECK (CASE WHEN run_id IS NULL THEN executor <> 'here' ELSE executor <> 'none' END),
    CONSTRAINT ck_tool_call_states_fit CHECK (
        (run_id IS NOT NULL OR state NOT IN ('new', 'refused'))
        AND (executor <> 'none' OR state IN ('asked', 'answered')) AND (executor = 'here' OR state <> 'delegated')),
    CONSTRAINT ck_tool_call_lapses CHECK ((lapse_at IS NOT NULL) = (executor = 'program' AND state = 'ready')),
    CONSTRAINT ck_tool_call_lapsed_ended CHECK (lapsed_at IS NULL OR state IN ('refused', 'answered')),
    CONSTRAINT ck_tool_call_handed_over_approved CHECK (handed_over_at IS NULL OR state <> 'asked'),
    CONSTRAINT ck_tool_call_key_of_program
        CHECK (executor_key IS NULL OR (executor = 'program' AND run_id IS NOT NULL)),
    CONSTRAINT ck_tool_call_action_with_digest CHECK ((action IS NULL) = (digest IS NULL)),
    CONSTRAINT ck_tool_call_digest_of_action CHECK (digest IS NULL OR digest = sha256(action)),
    CONSTRAINT ck_tool_call_answered_with_time CHECK ((state = 'answered') = (answered_at IS NOT NULL)),
    CONSTRAINT ck_tool_call_ended_with_kind CHECK (state NOT IN ('answered', 'refused') OR answer_kind IS NOT NULL),
    CONSTRAINT ck_tool_call_judged_has_action CHECK (run_id IS NULL OR state IN ('new', 'refused', 'answered') OR action IS NOT NULL),
    CONSTRAINT fk_tool_call_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE,
    CONSTRAINT fk_tool_call_repeats FOREIGN KEY (repeats) REFERENCES tool_call (id)
);
ALTER TABLE tool_call ALTER COLUMN agent SET (n_distinct = 1000);  -- as above

CREATE INDEX ix_tool_call_delegated ON tool_call (run_id) WHERE state = 'delegated';
CREATE UNIQUE INDEX uq_tool_call_repeats ON tool_call (repeats);
CREATE INDEX ix_tool_call_to_do ON tool_call (agent, created_at)
    WHERE run_id IS NOT NULL AND (state IN ('new', 'refused') OR (state = 'asked' AND announced_at IS NULL));
CREATE INDEX ix_tool_call_open ON tool_call (agent, state, run_id) WHERE run_id IS NOT NULL AND state <> 'answered';
CREATE UNIQUE INDEX uq_tool_call_place ON tool_call (run_id, place) WHERE place IS NOT NULL;
-- Calls that sleep are ready later, and are not read before.
CREATE INDEX ix_tool_call_due ON tool_call (agent, coalesce(retry_at, created_at))
    WHERE executor = 'here' AND run_id IS NOT NULL AND state = 'ready';
CREATE INDEX ix_tool_call_handed_out ON tool_call (agent, tool)
    WHERE executor = 'program' AND run_id IS NOT NULL AND state = 'ready';
CREATE INDEX ix_tool_call_in_doubt ON tool_call (id) WHERE state = 'in_doubt';
CREATE INDEX ix_tool_call_lapse ON tool_call (lapse_at) WHERE executor = 'program' AND state = 'ready';

CREATE TRIGGER tool_call_proposer_stays
    BEFORE UPDATE OF run_id, principal, client_id, content_digest, session ON tool_call
    FOR EACH ROW EXECUTE FUNCTION refuse_change('who proposed an action, and as what, never changes');

-- What must not begin: every agent ('*'), or one. While a row is here, nothing of it is claimed.
CREATE TABLE pause (
    scope text NOT NULL,
    by text NOT NULL,
    reason text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_pause PRIMARY KEY (scope),
    CONSTRAINT ck_pause_names_something CHECK (scope <> '')
);

-- Agents that are started again and again, on behalf of the person who answers for it.
CREATE TABLE schedule (
    id uuid NOT NULL,
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
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    next_at timestamptz,
    CONSTRAINT pk_schedule PRIMARY KEY (id),
    CONSTRAINT ck_schedule_grace_not_negative CHECK (grace_seconds >= 0)
);
CREATE INDEX ix_schedule_due ON schedule (next_at) WHERE next_at IS NOT NULL;

-- Each time comes once, to one process; where nothing was begun then, the run has failed and can be resumed.
CREATE TABLE schedule_start (
    schedule_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    run_id uuid NOT NULL,
    missed text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_schedule_start PRIMARY KEY (schedule_id, due_at),
    CONSTRAINT fk_schedule_start_schedule FOREIGN KEY (schedule_id) REFERENCES schedule (id) ON DELETE CASCADE
);
