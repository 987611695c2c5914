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
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT ON retry_vote TO %I', current_setting('signoff.role'));
END;
$$;

-- The worker of an attempt in doubt may still report that it succeeded, as long as nobody has settled it.
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
CREATE OR REPLACE TRIGGER execution_absorbs
    BEFORE UPDATE ON execution
    FOR EACH ROW WHEN (OLD.status <> 'claimed' AND NEW.status <> OLD.status)
    EXECUTE FUNCTION execution_keeps_its_outcome();

CREATE OR REPLACE VIEW works_with AS SELECT '0008'::text AS version, '0002'::text AS oldest;
