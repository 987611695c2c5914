-- What no program may do to the record, whatever rights it has, and the view of all questions.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END;
$$;

-- Audit rows are final for everybody, their owner included. ALWAYS: also for a session that calls itself a replica.
CREATE TRIGGER audit_event_is_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('audit rows are final');
ALTER TABLE audit_event ENABLE ALWAYS TRIGGER audit_event_is_final;

-- The record of who was asked what, and what they said. A row is never changed, and goes only with the request (or
-- the execution) that it belongs to: then the deletion comes from a foreign key, so from inside a trigger.
-- Its owner, and nobody else, can erase what a revision of an ended request says: whole, once, and its digest stays.
CREATE FUNCTION revision_only_erased() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    erased request_revision%ROWTYPE := OLD;
    note text := 'erased on ' || to_char(NEW.erased_at AT TIME ZONE 'UTC', 'YYYY-MM-DD');
BEGIN
    erased.erased_at := NEW.erased_at;
    erased.action := '';
    erased.arguments := NULL;
    erased.facts := NULL;
    erased.description := note;
    erased.rationale := NULL;
    erased.context := jsonb_build_object('task', note);
    erased.changes := CASE WHEN OLD.changes IS NOT NULL THEN '[]'::jsonb END;
    IF OLD.erased_at IS NOT NULL OR NEW.erased_at IS NULL OR NEW IS DISTINCT FROM erased
       OR EXISTS (SELECT FROM approval_request WHERE id = OLD.request_id AND status = 'waiting') THEN
        RAISE EXCEPTION 'UPDATE of request_revision is refused: what people were shown is final'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER request_revision_only_erased
    BEFORE UPDATE ON request_revision
    FOR EACH ROW EXECUTE FUNCTION revision_only_erased();
CREATE TRIGGER request_revision_not_born_erased
    BEFORE INSERT ON request_revision
    FOR EACH ROW WHEN (NEW.erased_at IS NOT NULL)
    EXECUTE FUNCTION refuse_change('people are shown all of it before it is erased');
CREATE TRIGGER request_revision_stays
    BEFORE DELETE ON request_revision
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER request_revision_not_emptied
    BEFORE TRUNCATE ON request_revision
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('what people were shown is final');

CREATE TRIGGER decision_is_final
    BEFORE UPDATE ON decision
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a decision is final');
CREATE TRIGGER decision_stays
    BEFORE DELETE ON decision
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER decision_not_emptied
    BEFORE TRUNCATE ON decision
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('a decision is final');

CREATE TRIGGER settlement_is_final
    BEFORE UPDATE ON settlement
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a settlement is final');
CREATE TRIGGER settlement_stays
    BEFORE DELETE ON settlement
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its execution');
CREATE TRIGGER settlement_not_emptied
    BEFORE TRUNCATE ON settlement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('a settlement is final');

-- A vote can be superseded, once, and nothing else about it changes.
CREATE FUNCTION vote_only_superseded() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    allowed vote%ROWTYPE := OLD;
BEGIN
    allowed.superseded_by := NEW.superseded_by;
    IF OLD.superseded_by IS NOT NULL OR NEW IS DISTINCT FROM allowed THEN
        RAISE EXCEPTION 'UPDATE of vote is refused: a vote can only be superseded, once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER vote_only_superseded
    BEFORE UPDATE ON vote
    FOR EACH ROW EXECUTE FUNCTION vote_only_superseded();
CREATE TRIGGER vote_stays
    BEFORE DELETE ON vote
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER vote_not_emptied
    BEFORE TRUNCATE ON vote
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('votes are kept');

-- Terminal states absorb.
CREATE TRIGGER approval_request_absorbs
    BEFORE UPDATE ON approval_request
    FOR EACH ROW WHEN (OLD.status <> 'waiting' AND NEW.status <> OLD.status)
    EXECUTE FUNCTION refuse_change('a request that has an outcome keeps it');
-- What people decide under, and on whose behalf, was settled when the request was opened.
CREATE TRIGGER approval_request_terms_stay
    AFTER UPDATE ON approval_request
    FOR EACH ROW WHEN (
        (OLD.policy, OLD.policy_digest, OLD.principal, OLD.client_id, OLD.content_digest, OLD.approvals_required,
         OLD.checkpoint_id, OLD.team_id)
        IS DISTINCT FROM
        (NEW.policy, NEW.policy_digest, NEW.principal, NEW.client_id, NEW.content_digest, NEW.approvals_required,
         NEW.checkpoint_id, NEW.team_id)
        OR (OLD.requester_team_id, OLD.requester_user_id) IS DISTINCT FROM (NEW.requester_team_id, NEW.requester_user_id))
    EXECUTE FUNCTION refuse_change('the terms of a request stay as they were opened');
CREATE TRIGGER execution_absorbs
    BEFORE UPDATE ON execution
    FOR EACH ROW WHEN (OLD.status <> 'claimed' AND NEW.status <> OLD.status)
    EXECUTE FUNCTION refuse_change('an execution that has ended keeps its outcome');

-- Judged when the transaction commits: a request has an outcome if and only if it has a decision, and it is the same.
-- The path is pinned, because the constraint also holds for a session with another search_path.
CREATE FUNCTION outcome_is_decided() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    subject uuid;
    stands request_status;
    decided request_status;
BEGIN
    IF TG_TABLE_NAME = 'decision' THEN
        subject := NEW.request_id;
    ELSE
        subject := NEW.id;
    END IF;
    SELECT r.status, coalesce(d.outcome, 'waiting') INTO stands, decided
        FROM approval_request r LEFT JOIN decision d ON d.request_id = r.id
        WHERE r.id = subject;
    IF FOUND AND stands <> decided THEN
        RAISE EXCEPTION 'request % is % but its decision says %', subject, stands, decided
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END;
$$;
CREATE CONSTRAINT TRIGGER approval_request_outcome_is_decided
    AFTER INSERT OR UPDATE OF status ON approval_request
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status <> 'waiting') EXECUTE FUNCTION outcome_is_decided();
CREATE CONSTRAINT TRIGGER decision_is_the_outcome
    AFTER INSERT ON decision
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION outcome_is_decided();

-- Every question with its present wording, for people and programs that look from outside.
CREATE VIEW pending_reviews WITH (security_invoker = true) AS
    SELECT r.id AS request_id,
           v.description AS action_description,
           v.context AS agent_context,
           r.created_at AS "timestamp",
           r.status
    FROM approval_request r JOIN request_revision v ON v.request_id = r.id AND v.n = r.revision;
