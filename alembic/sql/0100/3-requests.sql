-- What people are asked, what they were shown, how they voted and what was decided.

CREATE TYPE risk AS ENUM ('low', 'medium', 'high', 'critical');
CREATE TYPE request_status AS ENUM ('waiting', 'approved', 'rejected', 'expired', 'cancelled', 'answered');
CREATE TYPE verdict AS ENUM ('approve', 'reject', 'answer');

-- The rules of the policy that requests were opened under, each once, by the SHA-256 of its canonical JSON. Requests name
-- theirs without a foreign key: that would lock the one row that many openings share.
CREATE TABLE rule (
    digest bytea NOT NULL,
    content jsonb NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_rule PRIMARY KEY (digest),
    CONSTRAINT ck_rule_digest_size CHECK (octet_length(digest) = 32),
    CONSTRAINT ck_rule_content_is_object CHECK (jsonb_typeof(content) = 'object')
);
CREATE TRIGGER rule_is_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON rule
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('what people decided under is on record');

-- A statement that inserts a rule which is there does nothing, so one written early under another's digest would be kept.
CREATE FUNCTION rule_has_one_content() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM rule WHERE digest = NEW.digest AND content <> NEW.content) THEN
        RAISE EXCEPTION 'another rule is stored under this digest' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER rule_has_one_content
    BEFORE INSERT ON rule FOR EACH ROW EXECUTE FUNCTION rule_has_one_content();

CREATE TABLE approval_request (
    id uuid NOT NULL,
    principal text NOT NULL,
    client_id text NOT NULL,
    source text NOT NULL,
    run_id uuid,
    call_id uuid NOT NULL,
    ask_no smallint DEFAULT 1 NOT NULL,
    agent text NOT NULL,
    agent_version text NOT NULL,
    requester_team_id text,
    requester_user_id text,
    requester_asserted text NOT NULL,
    checkpoint_id text NOT NULL,
    rule_digest bytea NOT NULL,
    approvers jsonb NOT NULL,
    risk risk NOT NULL,
    approvals_required smallint NOT NULL,
    team_id text NOT NULL,
    channel_id text NOT NULL,
    status request_status DEFAULT 'waiting' NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    voided_at timestamptz,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamptz NOT NULL,
    decided_at timestamptz,
    reminded smallint DEFAULT 0 NOT NULL,
    remind_next timestamptz,
    escalated_at timestamptz,
    api_key_id uuid,
    -- The people whose approval does not count under its policy, and why: an array of {team, user, why}, where why is
    -- requester, key_owner, instructor, adviser, editor or earlier_editor. Written when the request opens; edits add to it. Without it
    -- nobody could be known to be excluded.
    excluded jsonb NOT NULL,
    -- How the limits on its action stood when people were asked.
    limits jsonb,
    -- By which policy it was judged; 0 before one was in force.
    policy_epoch integer NOT NULL,
    -- The request in which people rejected the very same action, where policy shows that to whoever is asked again.
    rejected_before uuid,
    -- What it wants besides yes or no: {schema, other, answers_required, answerers}. NULL: an approval.
    answer_form jsonb,
    CONSTRAINT pk_approval_request PRIMARY KEY (id),
    CONSTRAINT uq_approval_request_call_id_ask_no UNIQUE (call_id, ask_no),
    CONSTRAINT ck_approval_request_expires_after_created CHECK (expires_at > created_at),
    CONSTRAINT ck_approval_request_at_least_one_approval CHECK (approvals_required >= 1),
    CONSTRAINT ck_approval_request_decided_with_time CHECK ((status = 'waiting') = (decided_at IS NULL)),
    CONSTRAINT ck_approval_request_only_approved_voided CHECK (voided_at IS NULL OR status = 'approved'),
    CONSTRAINT ck_approval_request_rule_digest_size CHECK (octet_length(rule_digest) = 32),
    CONSTRAINT ck_approval_request_somebody_may_decide
        CHECK (jsonb_typeof(approvers) = 'array' AND approvers <> '[]'),
    CONSTRAINT ck_approval_request_excluded_is_list CHECK (jsonb_typeof(excluded) = 'array'),
    CONSTRAINT ck_approval_request_limits_is_list CHECK (jsonb_typeof(limits) = 'array'),
    CONSTRAINT ck_approval_request_reminded_not_negative CHECK (reminded >= 0),
    CONSTRAINT ck_approval_request_answered_or_approved
        CHECK (status NOT IN ('approved', 'answered') OR (status = 'answered') = (answer_form IS NOT NULL)),
    CONSTRAINT ck_approval_request_run_request_has_run CHECK ((source = 'run') = (run_id IS NOT NULL)),
    CONSTRAINT ck_approval_request_requester_with_team
        CHECK ((requester_user_id IS NULL) = (requester_team_id IS NULL)),
    CONSTRAINT fk_approval_request_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE,
    CONSTRAINT fk_approval_request_call_id FOREIGN KEY (call_id) REFERENCES tool_call (id) ON DELETE CASCADE
);
ALTER TABLE approval_request ALTER COLUMN agent SET (n_distinct = 1000);  -- as for runs

CREATE INDEX ix_approval_request_agent ON approval_request (team_id, agent, decided_at, id)
    WHERE decided_at IS NOT NULL;
CREATE INDEX ix_approval_request_audience ON approval_request (team_id, approvers, channel_id, id)
    WHERE status = 'waiting';
CREATE INDEX ix_approval_request_client ON approval_request (client_id) WHERE source = 'api';
CREATE INDEX ix_approval_request_decided ON approval_request (team_id, decided_at, id) WHERE decided_at IS NOT NULL;
CREATE INDEX ix_approval_request_due ON approval_request (expires_at) WHERE status = 'waiting';
-- A run's requests have no opener but the run.
CREATE INDEX ix_approval_request_principal ON approval_request (principal, created_at, id) WHERE run_id IS NULL;
CREATE INDEX ix_approval_request_remind ON approval_request (remind_next) WHERE status = 'waiting';
CREATE INDEX ix_approval_request_requester
    ON approval_request (requester_team_id, requester_user_id, created_at, id);
CREATE INDEX ix_approval_request_run ON approval_request (run_id);
CREATE INDEX ix_approval_request_run_waiting ON approval_request (team_id, run_id)
    WHERE status = 'waiting' AND run_id IS NOT NULL;
CREATE INDEX ix_approval_request_status ON approval_request (team_id, status, decided_at, id)
    WHERE decided_at IS NOT NULL;
CREATE INDEX ix_approval_request_team ON approval_request (team_id, created_at, id);
CREATE INDEX ix_approval_request_waiting ON approval_request (team_id, created_at, id) WHERE status = 'waiting';
CREATE INDEX ix_approval_request_key_waiting ON approval_request (principal)
    WHERE status = 'waiting' AND run_id IS NULL;
CREATE INDEX ix_approval_request_by_agent ON approval_request (agent, status, id);
-- The orders of the inbox beside that of age, which is the audience's. Only what waits is in these indexes.
CREATE INDEX ix_approval_request_by_expires_at ON approval_request (team_id, approvers, channel_id, expires_at, id)
    WHERE status = 'waiting';
CREATE INDEX ix_approval_request_by_risk ON approval_request (team_id, approvers, channel_id, risk, id)
    WHERE status = 'waiting';

-- Terminal states absorb.
CREATE TRIGGER approval_request_absorbs
    BEFORE UPDATE ON approval_request
    FOR EACH ROW WHEN (OLD.status <> 'waiting' AND NEW.status <> OLD.status)
    EXECUTE FUNCTION refuse_change('a request that has an outcome keeps it');
-- The approvers, the requester, `excluded`, `approvals_required` and `expires_at` are the terms of consent. Their digest is in
-- `request.opened` and in each later event that changes them, as `terms`: a row that differs from the latest is not decided.
-- What people decide under, and on whose behalf, was settled when the request was opened.
CREATE TRIGGER approval_request_terms_stay
    AFTER UPDATE ON approval_request
    FOR EACH ROW WHEN (
        (OLD.rule_digest, OLD.principal, OLD.client_id, OLD.call_id, OLD.approvals_required, OLD.checkpoint_id,
         OLD.team_id)
        IS DISTINCT FROM
        (NEW.rule_digest, NEW.principal, NEW.client_id, NEW.call_id, NEW.approvals_required, NEW.checkpoint_id,
         NEW.team_id)
        OR (OLD.requester_team_id, OLD.requester_user_id) IS DISTINCT FROM (NEW.requester_team_id, NEW.requester_user_id))
    EXECUTE FUNCTION refuse_change('the terms of a request stay as they were opened');
-- Its texts are erased after the revision that people were shown, which only the owner can do.
CREATE FUNCTION answer_form_only_erased() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    note text := (SELECT description FROM request_revision
                  WHERE request_id = OLD.id AND n = OLD.revision AND erased_at IS NOT NULL);
BEGIN
    IF note IS NULL OR OLD.status = 'waiting' OR NEW.answer_form IS DISTINCT FROM OLD.answer_form
       || jsonb_build_object('schema', jsonb_build_object('enum', jsonb_build_array(note)), 'order', '[]'::jsonb) THEN
        RAISE EXCEPTION 'UPDATE of approval_request is refused: what a question asks for is final'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER approval_request_answer_form_only_erased
    BEFORE UPDATE OF answer_form ON approval_request
    FOR EACH ROW WHEN (OLD.answer_form IS DISTINCT FROM NEW.answer_form)
    EXECUTE FUNCTION answer_form_only_erased();
CREATE TRIGGER approval_request_key_stays
    BEFORE UPDATE OF api_key_id ON approval_request
    FOR EACH ROW EXECUTE FUNCTION refuse_change('the key that opened a request never changes');
CREATE TRIGGER approval_request_exclusions_stay
    BEFORE UPDATE OF excluded ON approval_request
    FOR EACH ROW WHEN (NOT coalesce(NEW.excluded @> OLD.excluded, false))
    EXECUTE FUNCTION refuse_change('who is excluded from a request stays excluded');

-- How long a program may take to begin a call that it executes.
CREATE FUNCTION time_to_claim(call uuid, ask smallint) RETURNS interval LANGUAGE sql STABLE
    SET search_path FROM CURRENT AS $$
    SELECT coalesce((SELECT make_interval(secs => (rule.content ->> 'execute_within')::float)
                     FROM approval_request AS r JOIN rule ON rule.digest = r.rule_digest
                     WHERE r.call_id = call AND r.ask_no = ask), interval '24 hours')
$$;

-- From here to `decision` is the record of who was asked what, and what they said. A row is never changed, and goes only
-- with the request that it belongs to: then the deletion comes from a foreign key, so from inside a trigger.
CREATE TABLE request_revision (
    request_id uuid NOT NULL,
    n integer NOT NULL,
    tool text NOT NULL,
    tool_version text NOT NULL,
    action bytea NOT NULL,
    digest bytea NOT NULL,
    arguments jsonb,
    facts bytea,
    author text NOT NULL,
    description text NOT NULL,
    rationale text,
    context jsonb NOT NULL,
    editor_team_id text,
    editor_user_id text,
    changes jsonb,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    erased_at timestamptz,
    -- SHA-256 over the names, types and defaults of the parameters that the tool had when people were asked. It stands
    -- beside the action, so that the digest of an action depends on the action alone. NULL is not compared: a program's.
    signature_digest bytea,
    -- Of facts that the tool did not look up itself: told by the program that asks, or looked up by Signoff.
    facts_source text,
    CONSTRAINT pk_request_revision PRIMARY KEY (request_id, n),
    CONSTRAINT ck_request_revision_digest_of_action CHECK (erased_at IS NOT NULL OR digest = sha256(action)),
    CONSTRAINT ck_request_revision_signature_digest_size CHECK (octet_length(signature_digest) = 32),
    CONSTRAINT ck_request_revision_erased_whole
        CHECK (erased_at IS NULL OR (octet_length(action) = 0 AND num_nonnulls(arguments, facts, rationale) = 0)),
    CONSTRAINT ck_request_revision_known_facts_source CHECK (facts_source IN ('program', 'signoff')),
    CONSTRAINT ck_request_revision_n_from_one CHECK (n >= 1),
    CONSTRAINT ck_request_revision_editor_with_team CHECK ((editor_user_id IS NULL) = (editor_team_id IS NULL)),
    CONSTRAINT ck_request_revision_edit_with_changes CHECK ((editor_user_id IS NULL) = (changes IS NULL)),
    CONSTRAINT ck_request_revision_later_ones_edited CHECK (n <= 1 OR editor_user_id IS NOT NULL),
    CONSTRAINT fk_request_revision_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_request_revision_edits ON request_revision (created_at) WHERE editor_user_id IS NOT NULL;

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

CREATE TABLE vote (
    id uuid NOT NULL,
    request_id uuid NOT NULL,
    revision integer NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    verdict verdict NOT NULL,
    reason text,
    path text NOT NULL,
    superseded_by uuid,
    -- The form that cast it with votes on other requests, one by one.
    together uuid,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_vote PRIMARY KEY (id),
    CONSTRAINT fk_vote_request_id_revision
        FOREIGN KEY (request_id, revision) REFERENCES request_revision (request_id, n) ON DELETE CASCADE,
    CONSTRAINT fk_vote_superseded_by
        FOREIGN KEY (superseded_by) REFERENCES vote (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE UNIQUE INDEX uq_vote_live ON vote (request_id, team_id, user_id) WHERE superseded_by IS NULL;
CREATE INDEX ix_vote_together ON vote (together) WHERE together IS NOT NULL;
-- People's own words of the last day are few, however many questions there are.
CREATE INDEX ix_vote_words ON vote (created_at) WHERE verdict = 'approve' AND btrim(reason) <> '';

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

-- What a vote with the verdict `answer` says, in canonical JSON. `own_words`: it has text that the person wrote.
CREATE TABLE answer (
    vote_id uuid NOT NULL,
    request_id uuid NOT NULL,
    value bytea NOT NULL,
    digest bytea NOT NULL,
    own_words boolean NOT NULL,
    created_at timestamptz NOT NULL,
    erased_at timestamptz,
    CONSTRAINT pk_answer PRIMARY KEY (vote_id),
    CONSTRAINT ck_answer_digest_of_value CHECK (erased_at IS NOT NULL OR digest = sha256(value)),
    CONSTRAINT ck_answer_erased_whole CHECK (erased_at IS NULL OR octet_length(value) = 0),
    CONSTRAINT fk_answer_vote_id FOREIGN KEY (vote_id) REFERENCES vote (id) ON DELETE CASCADE
);
CREATE INDEX ix_answer_request ON answer (request_id);
CREATE INDEX ix_answer_words ON answer (created_at) WHERE own_words;

-- Its owner can erase the value of an ended request's answer, once; its digest stays.
CREATE FUNCTION answer_only_erased() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    erased answer%ROWTYPE := OLD;
BEGIN
    erased.erased_at := NEW.erased_at;
    erased.value := '';
    IF OLD.erased_at IS NOT NULL OR NEW.erased_at IS NULL OR NEW IS DISTINCT FROM erased
       OR EXISTS (SELECT FROM approval_request WHERE id = OLD.request_id AND status = 'waiting') THEN
        RAISE EXCEPTION 'UPDATE of answer is refused: an answer is final' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER answer_only_erased
    BEFORE UPDATE ON answer
    FOR EACH ROW EXECUTE FUNCTION answer_only_erased();
CREATE TRIGGER answer_stays
    BEFORE DELETE ON answer
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER answer_not_emptied
    BEFORE TRUNCATE ON answer
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('answers are kept');

CREATE TABLE decision (
    request_id uuid NOT NULL,
    outcome request_status NOT NULL,
    revision integer NOT NULL,
    digest bytea NOT NULL,
    team_id text,
    user_id text,
    reason text,
    decided_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    -- Where several approvals made it: the [team, user] whose approvals counted, in the order in which they voted.
    approved_by jsonb DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_decision PRIMARY KEY (request_id),
    CONSTRAINT ck_decision_is_an_outcome CHECK (outcome <> 'waiting'),
    CONSTRAINT ck_decision_people_decide CHECK (outcome NOT IN ('approved', 'rejected', 'answered') OR user_id IS NOT NULL),
    CONSTRAINT ck_decision_approved_by_is_list CHECK (jsonb_typeof(approved_by) = 'array'),
    CONSTRAINT ck_decision_digest_size CHECK (octet_length(digest) = 32),
    CONSTRAINT fk_decision_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_decision_person ON decision (team_id, user_id, decided_at, request_id);
CREATE INDEX ix_decision_approved_by ON decision USING gin (approved_by jsonb_path_ops) WHERE approved_by <> '[]';
-- Whether the very same action was rejected lately.
CREATE INDEX ix_decision_rejected ON decision (digest, decided_at) WHERE outcome = 'rejected';
CREATE INDEX ix_decision_words ON decision (decided_at) WHERE outcome = 'rejected' AND btrim(reason) <> '';

CREATE TRIGGER decision_is_final
    BEFORE UPDATE ON decision
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a decision is final');
CREATE TRIGGER decision_stays
    BEFORE DELETE ON decision
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER decision_not_emptied
    BEFORE TRUNCATE ON decision
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('a decision is final');

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

-- A description as it is stored has its long values whole, between two marks (`signoff.description`). People see them cut:
-- quoted ones after 60 characters, others after 200, and no mask cut through.
CREATE FUNCTION shown_description(stored text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(
        CASE WHEN mark <> U&'\2068' OR left_out = 0 THEN piece
        ELSE left(quote, 1) || left(value, kept) || '…' || right(quote, 1) || ' (+' || left_out || ' characters)' END,
        '' ORDER BY n)
    FROM regexp_matches(stored, U&'([\2068\2069]?)([^\2068\2069]*)', 'g') WITH ORDINALITY AS found (parts, n)
    CROSS JOIN LATERAL (SELECT parts[1] AS mark, parts[2] AS piece) AS a
    CROSS JOIN LATERAL (
        SELECT CASE WHEN left(piece, 1) || right(piece, 1) IN ('“”', '«»') THEN left(piece, 1) || right(piece, 1)
               ELSE '' END AS quote) AS b
    CROSS JOIN LATERAL (
        SELECT CASE WHEN quote = '' THEN piece ELSE substr(piece, 2, length(piece) - 2) END AS inner_text) AS c
    CROSS JOIN LATERAL (
        SELECT regexp_replace(inner_text, '… \(\+[0-9]{1,9} characters\)$', '') AS value,
               coalesce(substring(inner_text FROM '… \(\+([0-9]{1,9}) characters\)$')::int, 0) AS cut_before,
               CASE WHEN quote = '' THEN 200 ELSE 60 END AS most) AS d
    CROSS JOIN LATERAL (
        SELECT most + CASE WHEN left(value, most) ~ '⟦redacted[^⟧]*$' AND position('⟧' IN substr(value, most + 1)) > 0
                      THEN position('⟧' IN substr(value, most + 1)) ELSE 0 END AS kept) AS e
    CROSS JOIN LATERAL (SELECT cut_before + greatest(0, length(value) - kept) AS left_out) AS f
$$;

-- The table of the guide "How to set up agent-human collaboration workflows": what a program sent, as it sent it; of a
-- run's request, and where it sent no description, what people are shown. Our own id of a request is `id`.
CREATE VIEW pending_reviews WITH (security_invoker = true) AS
    SELECT CASE WHEN r.source <> 'api' THEN r.id::text WHEN r.voided_at IS NULL THEN r.client_id
                ELSE r.client_id || '#' || r.ask_no END AS request_id,
           coalesce(asked.fields ->> 'action_description', shown_description(v.description)) AS action_description,
           CASE WHEN jsonb_exists(asked.fields, 'agent_context') THEN nullif(asked.fields -> 'agent_context', 'null')
                ELSE v.context END AS agent_context,
           coalesce((asked.fields ->> 'timestamp')::timestamptz, r.created_at) AS "timestamp",
           r.status,
           r.id
    FROM approval_request AS r
    JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    CROSS JOIN LATERAL (
        -- Without an action the fields are the arguments, which an edit may change: the first revision has what was sent.
        SELECT CASE WHEN r.source <> 'api' THEN NULL WHEN f.tool = 'external' THEN f.arguments ELSE f.context END AS fields
        FROM request_revision AS f WHERE f.request_id = r.id AND f.n = 1
    ) AS asked;

-- What can be found by its words: of each request the masked ones, as people may read them. The service writes them a
-- moment later, in batches; search_due says for which requests. An erased request is found by its old words no more.
CREATE TABLE request_search (
    request_id uuid NOT NULL,
    recorded bigint NOT NULL,
    words tsvector NOT NULL,
    CONSTRAINT pk_request_search PRIMARY KEY (request_id),
    CONSTRAINT fk_request_search_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_request_search_words ON request_search USING gin (words);
CREATE TABLE search_due (
    id bigint GENERATED ALWAYS AS IDENTITY,
    request_id uuid NOT NULL,
    CONSTRAINT pk_search_due PRIMARY KEY (id)
);

CREATE FUNCTION search_is_due() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM request_search WHERE request_id = NEW.request_id;
    END IF;
    INSERT INTO search_due (request_id) VALUES (NEW.request_id);
    RETURN NULL;
END;
$$;
CREATE TRIGGER request_revision_search_due
    AFTER INSERT OR UPDATE ON request_revision
    FOR EACH ROW EXECUTE FUNCTION search_is_due();
CREATE TRIGGER vote_search_due
    AFTER INSERT ON vote
    FOR EACH ROW WHEN (NEW.reason IS NOT NULL) EXECUTE FUNCTION search_is_due();
CREATE TRIGGER decision_search_due
    AFTER INSERT ON decision
    FOR EACH ROW WHEN (NEW.reason IS NOT NULL) EXECUTE FUNCTION search_is_due();
