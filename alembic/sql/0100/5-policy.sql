-- The policies, how each action was judged by them, and what they count: uses of grants and of limits over time.

-- The policies that were ever in force. The last row is the policy that every process judges and claims by.
CREATE TABLE policy (
    epoch integer NOT NULL,
    source text NOT NULL,
    digest bytea NOT NULL,
    by text NOT NULL,
    restores integer,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_policy PRIMARY KEY (epoch),
    CONSTRAINT ck_policy_counts_from_one CHECK (epoch >= 1),
    CONSTRAINT ck_policy_digest_size CHECK (octet_length(digest) = 32),
    CONSTRAINT ck_policy_restores_an_earlier_one CHECK (restores < epoch),
    CONSTRAINT fk_policy_restores FOREIGN KEY (restores) REFERENCES policy (epoch)
);
CREATE TRIGGER policy_is_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON policy
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('what was in force is on record');

-- Every judgement of policy with what it rests on, so that another policy can be tried on them. The content of those
-- that led to a request or an edit is in that revision.
CREATE TABLE judgement (
    id uuid NOT NULL,
    policy_epoch integer NOT NULL,
    call_id uuid,
    request_id uuid,
    principal text,
    agent text NOT NULL,
    requester text,
    tool text NOT NULL,
    traits jsonb NOT NULL,
    action bytea,
    facts bytea,
    facts_failed boolean NOT NULL,
    verdict text NOT NULL,
    checkpoint_id text,
    because text NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    -- What checkpoints that are only observed would have made of it.
    observed jsonb,
    revision integer,
    -- The grant that it is a use of.
    grant_id uuid,
    -- What the checkpoints alone said, where a limit over time or an earlier rejection said something else.
    ruled text,
    ruled_by text,
    CONSTRAINT pk_judgement PRIMARY KEY (id),
    CONSTRAINT ck_judgement_known_verdict CHECK (verdict IN ('run', 'ask', 'deny')),
    CONSTRAINT ck_judgement_known_ruling CHECK (ruled IN ('run', 'ask')),
    CONSTRAINT ck_judgement_observed_is_list CHECK (jsonb_typeof(observed) = 'array')
);
CREATE INDEX ix_judgement_content ON judgement (id) WHERE action IS NOT NULL;
CREATE INDEX ix_judgement_observed ON judgement (id) WHERE observed IS NOT NULL;

-- The weeks whose numbers were told to operators.
CREATE TABLE told_week (
    starts timestamptz NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_told_week PRIMARY KEY (starts)
);

-- Consent that people give in advance. What a grant allows stands in the action of its request, which they approve; the
-- columns here find it and bound it once more. It is counted where a use is written, so that no path can overdraw it.
CREATE TABLE approval_grant (
    request_id uuid NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    checkpoint_id text NOT NULL,
    agents text[] NOT NULL,
    until timestamptz NOT NULL,
    max_uses integer NOT NULL,
    max_sum numeric,
    uses integer DEFAULT 0 NOT NULL,
    used_sum numeric DEFAULT 0 NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamptz,
    ended_by text,
    ended_because text,
    CONSTRAINT pk_approval_grant PRIMARY KEY (request_id),
    CONSTRAINT ck_approval_grant_uses_within CHECK (uses BETWEEN 0 AND max_uses),
    CONSTRAINT ck_approval_grant_sum_within CHECK (used_sum <= coalesce(max_sum, used_sum)),
    CONSTRAINT ck_approval_grant_ended_whole CHECK (num_nonnulls(ended_at, ended_by, ended_because) IN (0, 3)),
    CONSTRAINT fk_approval_grant_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_approval_grant_live ON approval_grant (agent, tool, checkpoint_id, until) WHERE ended_at IS NULL;

CREATE TRIGGER approval_grant_is_final
    BEFORE UPDATE ON approval_grant
    FOR EACH ROW WHEN (
        (NEW.request_id, NEW.agent, NEW.tool, NEW.checkpoint_id, NEW.agents, NEW.until, NEW.max_uses, NEW.max_sum)
            IS DISTINCT FROM
        (OLD.request_id, OLD.agent, OLD.tool, OLD.checkpoint_id, OLD.agents, OLD.until, OLD.max_uses, OLD.max_sum)
        OR ((NEW.uses, NEW.used_sum) IS DISTINCT FROM (OLD.uses, OLD.used_sum) AND pg_trigger_depth() = 0)
        OR OLD.ended_at IS NOT NULL)
    EXECUTE FUNCTION refuse_change('a grant only counts its uses, and ends');
CREATE TRIGGER approval_grant_stays
    BEFORE DELETE ON approval_grant
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER approval_grant_not_emptied
    BEFORE TRUNCATE ON approval_grant
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('grants are kept');

CREATE TABLE grant_use (
    key text NOT NULL,
    grant_id uuid NOT NULL,
    n integer NOT NULL,
    amount numeric NOT NULL,
    digest bytea NOT NULL,
    content bytea NOT NULL,
    used_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_grant_use PRIMARY KEY (key),
    CONSTRAINT uq_grant_use_n UNIQUE (grant_id, n),
    CONSTRAINT ck_grant_use_adds_up CHECK (amount >= 0 AND n >= 1),
    CONSTRAINT fk_grant_use_grant_id FOREIGN KEY (grant_id) REFERENCES approval_grant (request_id) ON DELETE CASCADE
);

CREATE FUNCTION grant_use_counts() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE approval_grant SET uses = uses + 1, used_sum = used_sum + NEW.amount
    WHERE request_id = NEW.grant_id AND ended_at IS NULL AND until > clock_timestamp()
    RETURNING uses INTO NEW.n;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the grant % is not live', NEW.grant_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER grant_use_counts
    BEFORE INSERT ON grant_use
    FOR EACH ROW EXECUTE FUNCTION grant_use_counts();
CREATE TRIGGER grant_use_is_final
    BEFORE UPDATE ON grant_use
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a use is final');
CREATE TRIGGER grant_use_stays
    BEFORE DELETE ON grant_use
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its grant');
CREATE TRIGGER grant_use_not_emptied
    BEFORE TRUNCATE ON grant_use
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('uses are kept');

-- What a call, or what a program asked for, takes of a limit: at most one row for each of them, however often it is
-- judged, asked about or attempted. A row refers to nothing, so that it stays when its limit or its call goes.
CREATE TABLE limit_use (
    limit_name text NOT NULL,
    key uuid NOT NULL,
    subject text NOT NULL,
    amount numeric NOT NULL,
    settled boolean NOT NULL,
    at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_limit_use PRIMARY KEY (limit_name, key),
    CONSTRAINT ck_limit_use_amount_from_zero CHECK (amount >= 0 AND amount < 'Infinity')
);
CREATE INDEX ix_limit_use_settled ON limit_use (limit_name, subject, at) INCLUDE (amount, key) WHERE settled;
CREATE INDEX ix_limit_use_open ON limit_use (limit_name, subject) WHERE NOT settled;
CREATE INDEX ix_limit_use_old ON limit_use (at) WHERE settled;

-- What became of uses that are not settled: it follows from the call and its attempts, so that no release can be
-- forgotten. "used" counts from its latest attempt, or since a program read that it may act; "waiting" has not begun and
-- may never; "done" and "released" have ended. Only what failed at its only attempt, by the word of its worker, is
-- released: of an attempt that was lost nobody knows whether it had its effect. A question that people answered was used.
CREATE VIEW limit_use_open AS
SELECT u.limit_name, u.key, u.subject, u.amount,
       coalesce(of_call.standing, 'done') AS standing, coalesce(of_call.at, u.at) AS at
FROM limit_use AS u
LEFT JOIN LATERAL (
    SELECT CASE WHEN e.attempt IS NULL AND c.handed_over_at IS NOT NULL
                    THEN CASE WHEN c.state = 'answered' THEN 'done' ELSE 'used' END
                WHEN e.attempt IS NULL AND c.answer_kind = 'answered' THEN 'done'
                WHEN e.attempt IS NULL AND c.state IN ('refused', 'answered') THEN 'released'
                WHEN e.attempt IS NULL THEN 'waiting'
                WHEN c.state NOT IN ('refused', 'answered') THEN 'used'
                WHEN e.attempt = 1 AND e.status = 'failed' AND c.answer_kind IN ('error', 'nothing_done')
                    THEN 'released'
                ELSE 'done' END AS standing,
           coalesce(e.started_at, c.handed_over_at, c.answered_at) AS at
    FROM tool_call AS c
    LEFT JOIN LATERAL (SELECT attempt, status, started_at FROM execution WHERE call_id = c.id
                       ORDER BY attempt DESC LIMIT 1) AS e ON true
    WHERE c.id = u.key
) AS of_call ON true
WHERE NOT u.settled;

-- What is settled of a limit and counts, added up for each minute, hour and day, so that a window of 10,000 uses is a
-- hundred sums. It is kept where uses are written, so that no path can leave it behind.
CREATE TABLE limit_sum (
    limit_name text NOT NULL,
    subject text NOT NULL,
    seconds integer NOT NULL,
    since timestamptz NOT NULL,
    amount numeric NOT NULL,
    uses bigint NOT NULL,
    CONSTRAINT pk_limit_sum PRIMARY KEY (limit_name, seconds, subject, since)
);

-- One statement for what goes and what comes, in the order of the key: two that write the same sums wait for each
-- other, and never both.
CREATE FUNCTION limit_use_adds_up() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    gone limit_use[];
    come limit_use[];
BEGIN
    IF TG_OP <> 'INSERT' THEN
        SELECT array_agg(CAST(ROW(u.*) AS limit_use)) INTO gone FROM before AS u WHERE u.settled;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        SELECT array_agg(CAST(ROW(u.*) AS limit_use)) INTO come FROM after AS u WHERE u.settled;
    END IF;
    IF gone IS NULL AND come IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO limit_sum AS s (limit_name, subject, seconds, since, amount, uses)
    SELECT u.limit_name, u.subject, width.seconds, date_bin(make_interval(secs => width.seconds), u.at, 'epoch') AS since,
           sum(u.sign * u.amount), sum(u.sign)
    FROM (SELECT -1 AS sign, u.limit_name, u.subject, u.amount, u.at FROM unnest(gone) AS u
          UNION ALL SELECT 1, u.limit_name, u.subject, u.amount, u.at FROM unnest(come) AS u) AS u
    CROSS JOIN (VALUES (60), (3600), (86400)) AS width (seconds)
    GROUP BY u.limit_name, u.subject, width.seconds, since
    HAVING sum(u.sign * u.amount) <> 0 OR sum(u.sign) <> 0
    ORDER BY u.limit_name, width.seconds, u.subject, since
    ON CONFLICT (limit_name, seconds, subject, since) DO UPDATE
    SET amount = s.amount + excluded.amount, uses = s.uses + excluded.uses;
    IF gone IS NOT NULL THEN
        DELETE FROM limit_sum AS s
        USING unnest(gone) AS u CROSS JOIN (VALUES (60), (3600), (86400)) AS width (seconds)
        WHERE s.limit_name = u.limit_name AND s.seconds = width.seconds AND s.subject = u.subject
          AND s.since = date_bin(make_interval(secs => width.seconds), u.at, 'epoch') AND s.uses = 0;
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER limit_use_comes
    AFTER INSERT ON limit_use REFERENCING NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION limit_use_adds_up();
CREATE TRIGGER limit_use_changes
    AFTER UPDATE ON limit_use REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION limit_use_adds_up();
CREATE TRIGGER limit_use_goes
    AFTER DELETE ON limit_use REFERENCING OLD TABLE AS before
    FOR EACH STATEMENT EXECUTE FUNCTION limit_use_adds_up();

-- What is settled of a limit after a moment, by subject, in parts: the use at the edge one by one, then whole minutes
-- up to the next hour, whole hours up to the next day, whole days. Without a clause that keeps PostgreSQL from reading
-- it as part of the statement that asks.
CREATE FUNCTION limit_settled(limit_name text, edge timestamptz)
RETURNS TABLE (subject text, amount numeric) LANGUAGE sql STABLE AS $$
    SELECT u.subject, u.amount FROM limit_use AS u
    WHERE u.limit_name = limit_settled.limit_name AND u.settled AND u.at > edge
      AND u.at < date_bin('1 minute', edge, 'epoch') + interval '1 minute'
    UNION ALL
    SELECT s.subject, s.amount FROM limit_sum AS s
    WHERE s.limit_name = limit_settled.limit_name AND s.seconds = 60
      AND s.since > edge AND s.since < date_bin('1 hour', edge, 'epoch') + interval '1 hour'
    UNION ALL
    SELECT s.subject, s.amount FROM limit_sum AS s
    WHERE s.limit_name = limit_settled.limit_name AND s.seconds = 3600
      AND s.since > edge AND s.since < date_bin('24 hours', edge, 'epoch') + interval '24 hours'
    UNION ALL
    SELECT s.subject, s.amount FROM limit_sum AS s
    WHERE s.limit_name = limit_settled.limit_name AND s.seconds = 86400 AND s.since > edge
$$;
