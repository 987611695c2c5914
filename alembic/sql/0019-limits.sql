-- What a call, or what a program asked for, takes of a limit: at most one row for each of them, however often it is
-- judged, asked about or attempted. A row refers to nothing, so that it stays when its limit or its call goes.
CREATE TABLE limit_use (
    limit_name text NOT NULL,
    key uuid NOT NULL,
    of_call boolean NOT NULL,
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

-- What became of uses that are not settled: it follows from the call, or the request, and its attempts, so that no
-- release can be forgotten. "used" counts from its latest attempt; "waiting" has not begun and may never; "done" and
-- "released" have ended. Only what failed at its only attempt, by the word of its worker, is released: of an attempt that
-- was lost nobody knows whether it had its effect.
CREATE VIEW limit_use_open AS
SELECT u.limit_name, u.key, u.subject, u.amount,
       coalesce(of_call.standing, of_request.standing, 'done') AS standing,
       coalesce(of_call.at, of_request.at, u.at) AS at
FROM limit_use AS u
LEFT JOIN LATERAL (
    SELECT CASE WHEN e.attempt IS NULL AND c.state IN ('refused', 'answered') THEN 'released'
                WHEN e.attempt IS NULL THEN 'waiting'
                WHEN c.state NOT IN ('refused', 'answered') THEN 'used'
                WHEN e.attempt = 1 AND e.status = 'failed' AND c.answer_kind = 'error' THEN 'released'
                ELSE 'done' END AS standing,
           e.started_at AS at
    FROM tool_call AS c
    LEFT JOIN LATERAL (SELECT attempt, status, started_at FROM execution WHERE call_id = c.id
                       ORDER BY attempt DESC LIMIT 1) AS e ON true
    WHERE c.id = u.key
) AS of_call ON u.of_call
LEFT JOIN LATERAL (
    SELECT CASE WHEN r.status = 'waiting' THEN 'waiting'
                WHEN r.status <> 'approved' OR (r.voided_at IS NOT NULL AND e.attempt IS NULL) THEN 'released'
                WHEN e.attempt IS NULL AND r.handed_over_at IS NOT NULL
                    THEN CASE WHEN r.lapsed_at IS NULL THEN 'used' ELSE 'done' END
                WHEN e.attempt IS NULL THEN CASE WHEN r.lapsed_at IS NULL THEN 'waiting' ELSE 'released' END
                WHEN e.status = 'failed' THEN CASE WHEN e.attempt = 1 THEN 'released' ELSE 'done' END
                WHEN e.status = 'succeeded' OR e.verdict = 'done' OR r.lapsed_at IS NOT NULL THEN 'done'
                ELSE 'used' END AS standing,
           coalesce(e.started_at, r.handed_over_at) AS at
    FROM approval_request AS r
    LEFT JOIN LATERAL (SELECT x.attempt, x.status, x.started_at, s.verdict
                       FROM execution AS x LEFT JOIN settlement AS s ON s.execution_id = x.id
                       WHERE x.request_id = r.id ORDER BY x.attempt DESC LIMIT 1) AS e ON true
    WHERE r.id = u.key
) AS of_request ON NOT u.of_call
WHERE NOT u.settled;

-- How the limits on its action stood when people were asked.
ALTER TABLE approval_request ADD COLUMN limits jsonb,
    ADD CONSTRAINT ck_approval_request_limits_is_list CHECK (jsonb_typeof(limits) = 'array');

DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON limit_use TO %I', current_setting('signoff.role'));
    EXECUTE format('GRANT SELECT ON limit_use_open TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0019'::text AS version, '0002'::text AS oldest;
