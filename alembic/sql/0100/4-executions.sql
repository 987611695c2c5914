-- Attempts to carry an action out, and what people said about those whose outcome is in doubt.

CREATE TYPE execution_status AS ENUM ('claimed', 'succeeded', 'failed', 'in_doubt');
CREATE TYPE settlement_verdict AS ENUM ('retry', 'done');

CREATE TABLE execution (
    id uuid NOT NULL,
    call_id uuid NOT NULL,
    executor call_executor NOT NULL,
    request_id uuid,
    attempt smallint NOT NULL,
    digest bytea NOT NULL,
    idempotent boolean NOT NULL,
    worker text NOT NULL,
    -- Of the token with which a program claimed it.
    claim_hash bytea,
    lease_epoch bigint DEFAULT 1 NOT NULL,
    lease_until timestamptz NOT NULL,
    status execution_status DEFAULT 'claimed' NOT NULL,
    result text,
    error text,
    late_result text,
    started_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamptz,
    -- Whether the tool of an attempt only reads: it has no effect that could be in doubt.
    read_only boolean DEFAULT false NOT NULL,
    -- By which policy it was claimed; 0 before one was in force.
    policy_epoch integer NOT NULL,
    CONSTRAINT pk_execution PRIMARY KEY (id),
    CONSTRAINT ck_execution_program_with_claim
        CHECK (executor <> 'none' AND (executor = 'program') = (claim_hash IS NOT NULL)),
    CONSTRAINT ck_execution_finished_with_time CHECK ((status = 'claimed') = (finished_at IS NULL)),
    CONSTRAINT fk_execution_call_id
        FOREIGN KEY (call_id, executor) REFERENCES tool_call (id, executor) ON DELETE CASCADE,
    CONSTRAINT fk_execution_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_execution_leased ON execution (lease_until) WHERE status = 'claimed';
CREATE INDEX ix_execution_request ON execution (request_id);
CREATE UNIQUE INDEX uq_execution_attempt ON execution (call_id, attempt);
CREATE UNIQUE INDEX uq_execution_open_call ON execution (call_id) WHERE status = 'claimed';

CREATE TABLE settlement (
    execution_id uuid NOT NULL,
    verdict settlement_verdict NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    note text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_settlement PRIMARY KEY (execution_id),
    CONSTRAINT fk_settlement_execution_id
        FOREIGN KEY (execution_id) REFERENCES execution (id) ON DELETE CASCADE
);
CREATE INDEX ix_settlement_words ON settlement (created_at) WHERE btrim(note) <> '';
CREATE TRIGGER settlement_is_final
    BEFORE UPDATE ON settlement
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a settlement is final');
CREATE TRIGGER settlement_stays
    BEFORE DELETE ON settlement
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its execution');
CREATE TRIGGER settlement_not_emptied
    BEFORE TRUNCATE ON settlement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('a settlement is final');

-- Terminal states absorb; but the worker of an attempt in doubt may still report that it succeeded, as long as nobody has
-- settled it.
CREATE FUNCTION execution_keeps_its_outcome() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.status = 'in_doubt' AND NEW.status = 'succeeded'
       AND NOT EXISTS (SELECT FROM settlement WHERE execution_id = OLD.id) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'UPDATE of execution is refused: an execution that has ended keeps its outcome'
        USING ERRCODE = 'restrict_violation';
END;
$$;
CREATE TRIGGER execution_absorbs
    BEFORE UPDATE ON execution
    FOR EACH ROW WHEN (OLD.status <> 'claimed' AND NEW.status <> OLD.status)
    EXECUTE FUNCTION execution_keeps_its_outcome();

-- Who wants an attempt in doubt to be made again, while the quorum of its request is not complete. Whoever completes it
-- stands in settlement.
CREATE TABLE retry_vote (
    execution_id uuid NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    note text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_retry_vote PRIMARY KEY (execution_id, team_id, user_id),
    CONSTRAINT fk_retry_vote_execution_id
        FOREIGN KEY (execution_id) REFERENCES execution (id) ON DELETE CASCADE
);
CREATE TRIGGER retry_vote_is_final
    BEFORE UPDATE ON retry_vote
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a vote for Retry is final');
CREATE TRIGGER retry_vote_stays
    BEFORE DELETE ON retry_vote
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its execution');
CREATE TRIGGER retry_vote_not_emptied
    BEFORE TRUNCATE ON retry_vote
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('votes are kept');
