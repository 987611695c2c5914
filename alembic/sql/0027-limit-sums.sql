-- What is settled of a limit and counts, added up for each minute, hour and day, so that a window of 10,000 uses is a
-- hundred sums. It is kept where uses are written, so that no path and no earlier version can leave it behind.
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

INSERT INTO limit_sum (limit_name, subject, seconds, since, amount, uses)
SELECT u.limit_name, u.subject, width.seconds, date_bin(make_interval(secs => width.seconds), u.at, 'epoch') AS since,
       sum(u.amount), count(*)
FROM limit_use AS u CROSS JOIN (VALUES (60), (3600), (86400)) AS width (seconds)
WHERE u.settled
GROUP BY u.limit_name, u.subject, width.seconds, since;

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

DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON limit_sum TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0027'::text AS version, '0002'::text AS oldest;
