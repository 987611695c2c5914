"""The statement that leases a channel and takes its next message."""

from __future__ import annotations

from sqlalchemy import text

NEXT = text("""
WITH here AS MATERIALIZED (
    SELECT lease_epoch, now, next_at, next_update_at, next_at <= now AS may_post, next_update_at <= now AS may_change,
           next_update_at + make_interval(secs => :redraw_after) AS next_redraw_at
    FROM outlet CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
    WHERE team_id = :team AND channel_id = :channel AND (lease_until IS NULL OR lease_until <= now)
), new AS (
    (SELECT n.id, n.priority, n.kind, n.request_id, n.run_id
     FROM card_place AS p JOIN delivery AS n ON n.request_id = p.request_id AND n.kind = 'card'
     WHERE (SELECT may_post AND NOT may_change FROM here)
       AND p.team_id = :team AND p.channel_id = :channel AND p.ts IS NULL AND NOT p.folded
       AND (n.state = 'pending') IS NOT FALSE AND n.priority < 2 AND n.not_before <= (SELECT now FROM here) LIMIT 200)
    UNION ALL
    (SELECT n.id, n.priority, n.kind, n.request_id, n.run_id
     FROM agent_run AS a JOIN delivery AS n ON n.run_id = a.id AND n.kind = 'run_root'
     WHERE (SELECT may_post AND NOT may_change FROM here)
       AND a.team_id = :team AND a.channel_id = :channel AND a.thread_ts IS NULL
       AND (n.state = 'pending') IS NOT FALSE AND n.priority < 2 AND n.not_before <= (SELECT now FROM here) LIMIT 200)
), urgent AS MATERIALIZED (
    SELECT each.*, coalesce(each.agent, (SELECT CASE source WHEN 'api' THEN principal ELSE agent END
                                         FROM approval_request WHERE id = each.request_id),
                            (SELECT agent FROM agent_run WHERE id = each.run_id)) AS author
    FROM (SELECT each.* FROM (
        SELECT kind, may_change AS is_open, 0 AS least, 1 AS most
        FROM here CROSS JOIN unnest(CAST('{card,run_root}' AS delivery_kind[])) AS of_both (kind)
        UNION ALL SELECT 'card', next_redraw_at <= now, 2, 2 FROM here
        UNION ALL SELECT 'digest', may_change OR may_post, 0, 1 FROM here
        UNION ALL SELECT kind, may_post, 0, 1 FROM here
                  CROSS JOIN unnest(CAST('{direct,thread_line,run_line}' AS delivery_kind[])) AS of_posts (kind)
    ) AS lane CROSS JOIN LATERAL (
        SELECT d.id, d.priority, d.kind, d.request_id, d.run_id, d.agent, root.ts AS root_ts
        FROM (SELECT * FROM delivery
              WHERE team_id = :team AND channel_id = :channel AND state = 'pending' AND kind = lane.kind
                AND lane.is_open AND priority BETWEEN lane.least AND lane.most AND not_before <= (SELECT now FROM here)
              ORDER BY priority, id LIMIT (SELECT CAST(NULL AS int))) AS d
        CROSS JOIN LATERAL (SELECT coalesce(
            (SELECT ts FROM card_place WHERE request_id = d.request_id AND surface = 'channel'),
            (SELECT thread_ts FROM agent_run WHERE id = d.run_id), d.body ->> 'outdated',
            (SELECT ts FROM digest_card WHERE team_id = :team AND channel_id = :channel AND agent = d.agent
                                          AND NOT outdated),
            CASE d.kind WHEN 'digest' THEN (SELECT ts FROM request_group WHERE name = d.agent)
                        WHEN 'thread_line' THEN (
                            SELECT g.ts FROM card_place AS p JOIN request_group AS g ON g.name = p.digest
                            WHERE p.request_id = d.request_id AND p.surface = 'channel') END) AS ts) AS root
        WHERE CASE WHEN d.kind IN ('thread_line', 'run_line')
              THEN root.ts IS NOT NULL
                   AND NOT EXISTS (SELECT FROM delivery AS e
                                   WHERE (e.state = 'pending') IS NOT FALSE AND e.kind = d.kind AND e.id < d.id
                                   AND (e.request_id = d.request_id OR e.run_id = d.run_id)
                                   AND e.not_before > (SELECT now FROM here))
              WHEN d.kind <> 'direct' AND root.ts IS NOT NULL THEN (SELECT may_change FROM here)
              ELSE (SELECT may_post FROM here) END
        ORDER BY d.priority, d.id LIMIT 200
    ) AS each
    UNION ALL SELECT id, priority, kind, request_id, run_id, NULL, NULL FROM new) AS each
    ORDER BY each.priority, each.id LIMIT 200
), history AS MATERIALIZED (
    SELECT each.*, NULL AS author
    FROM unnest(CAST('{direct,thread_line,run_line}' AS delivery_kind[])) AS lane (kind) CROSS JOIN LATERAL (
        SELECT d.id, d.priority, d.kind, d.request_id, d.run_id, d.agent, root.ts AS root_ts
        FROM (SELECT * FROM delivery
              WHERE team_id = :team AND channel_id = :channel AND state = 'pending' AND kind = lane.kind
                AND priority >= 3 AND not_before <= (SELECT now FROM here)
              ORDER BY priority, id LIMIT (SELECT CAST(NULL AS int))) AS d
        CROSS JOIN LATERAL (SELECT CASE d.kind
            WHEN 'thread_line' THEN (
                SELECT coalesce(p.ts, g.ts) FROM card_place AS p LEFT JOIN request_group AS g ON g.name = p.digest
                WHERE p.request_id = d.request_id AND p.surface = 'channel')
            WHEN 'run_line' THEN (SELECT thread_ts FROM agent_run WHERE id = d.run_id) END AS ts) AS root
        WHERE d.kind = 'direct' OR (
            root.ts IS NOT NULL
            AND NOT EXISTS (SELECT FROM delivery AS e
                            WHERE (e.state = 'pending') IS NOT FALSE AND e.kind = d.kind AND e.id < d.id
                            AND (e.request_id = d.request_id OR e.run_id = d.run_id)))
        ORDER BY d.priority, d.id LIMIT 1
    ) AS each
    WHERE (SELECT may_post FROM here) AND NOT EXISTS (SELECT FROM urgent)
    ORDER BY each.priority, each.id LIMIT 1
), first AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM urgent UNION ALL SELECT * FROM history) AS waiting
    CROSS JOIN LATERAL (
        SELECT kind IN ('thread_line', 'run_line') AS is_line,
               root_ts IS NULL OR kind NOT IN ('card', 'run_root', 'digest') AS is_post) AS nature
    CROSS JOIN LATERAL (SELECT concat(CASE WHEN is_post THEN 'post' ELSE 'change' END, ' of ', author) AS turn) AS whose
    ORDER BY priority, array_position(CAST(:served AS text[]), turn) NULLS FIRST, id
    LIMIT 1
), thread AS (
    SELECT m.* FROM first JOIN delivery AS m
    ON m.kind = first.kind AND (m.request_id = first.request_id OR m.run_id = first.run_id)
    WHERE first.is_line AND (m.state = 'pending') IS NOT FALSE ORDER BY m.id LIMIT :lines
), fitting AS (
    SELECT *, row_number() OVER by_age AS n, first_value(ambiguous) OVER by_age AS is_doubtful,
           sum(length(CAST(body AS text))) OVER by_age AS size
    FROM thread WINDOW by_age AS (ORDER BY id)
), batch AS MATERIALIZED (
    SELECT id, body, wanted, attempts, error, ambiguous,
           CAST(extract(epoch FROM coalesce(sent_at, created_at)) AS float) AS since
    FROM fitting
    WHERE ambiguous = is_doubtful AND (n = 1 OR size <= :size)
    UNION ALL
    SELECT d.id, d.body, d.wanted, d.attempts, d.error, d.ambiguous,
           CAST(extract(epoch FROM coalesce(d.sent_at, d.created_at)) AS float)
    FROM first JOIN delivery AS d ON d.id = first.id WHERE NOT first.is_line
), grip AS MATERIALIZED (
    SELECT o.lease_epoch FROM outlet AS o
    WHERE o.team_id = :team AND o.channel_id = :channel
      AND (o.lease_until IS NULL OR o.lease_until <= clock_timestamp())
      AND o.lease_epoch = (SELECT lease_epoch FROM here) AND EXISTS (SELECT FROM first)
    FOR NO KEY UPDATE SKIP LOCKED
), posts AS MATERIALIZED (
    SELECT d.id FROM batch JOIN delivery AS d ON d.id = batch.id
    WHERE (d.state = 'pending') IS NOT FALSE AND (SELECT is_post FROM first) AND EXISTS (SELECT FROM grip)
    FOR NO KEY UPDATE OF d SKIP LOCKED
), excess AS (
    SELECT FROM card_place AS p
    JOIN delivery AS d ON d.request_id = p.request_id AND d.kind = 'card' AND (d.state = 'pending') IS NOT FALSE
    JOIN approval_request AS r ON r.id = p.request_id
    CROSS JOIN LATERAL (SELECT CASE r.source WHEN 'api' THEN r.principal ELSE r.agent END AS sender) AS whose
    WHERE p.team_id = :team AND p.channel_id = :channel AND p.surface = 'channel' AND p.ts IS NULL
      AND d.priority < 2 AND NOT d.ambiguous AND (r.status <> 'expired' OR p.told_at IS NOT NULL)
    GROUP BY sender
    HAVING bool_or(p.folded) OR count(*) > :cards_per_minute - (
        SELECT count(*) FROM card_place AS q JOIN approval_request AS s ON s.id = q.request_id
        WHERE q.team_id = :team AND q.channel_id = :channel AND q.surface = 'channel'
          AND CASE s.source WHEN 'api' THEN s.principal ELSE s.agent END = sender
          AND q.ts >= CAST(CAST(extract(epoch FROM clock_timestamp()) - 60 AS bigint) AS text)) - (
        SELECT count(*) FROM request_group AS g
        WHERE g.team_id = :team AND g.channel_id = :channel AND g.sender = whose.sender
          AND (g.ts IS NULL OR g.ts >= CAST(CAST(extract(epoch FROM clock_timestamp()) - 60 AS bigint) AS text)))
), stranded AS (
    SELECT FROM card_place AS p
    JOIN delivery AS d ON d.request_id = p.request_id AND d.kind = 'thread_line' AND (d.state = 'pending') IS NOT FALSE
    WHERE p.team_id = :team AND p.channel_id = :channel AND p.surface = 'channel' AND p.folded
      AND p.digest IS NULL AND p.ts IS NULL
), flood AS MATERIALIZED (
    SELECT CASE
        WHEN NOT CAST(:fold AS boolean) OR NOT EXISTS (SELECT FROM here) THEN false
        WHEN NOT EXISTS (SELECT FROM first) THEN EXISTS (SELECT FROM excess) OR EXISTS (SELECT FROM stranded)
        ELSE (SELECT kind = 'card' AND is_post FROM first) AND EXISTS (SELECT FROM excess) END AS is_flood
), held AS (
    UPDATE outlet SET lease_epoch = lease_epoch + 1, lease_worker = :worker,
                      lease_until = clock_timestamp() + make_interval(secs => :seconds)
    WHERE team_id = :team AND channel_id = :channel AND EXISTS (SELECT FROM grip) AND NOT (SELECT is_flood FROM flood)
      AND (NOT (SELECT is_post FROM first) OR (SELECT count(*) FROM posts) = (SELECT count(*) FROM batch))
    RETURNING lease_epoch
), begun AS (
    UPDATE delivery SET ambiguous = true, sent_at = CASE WHEN ambiguous THEN sent_at ELSE clock_timestamp() END
    FROM posts WHERE delivery.id = posts.id AND EXISTS (SELECT FROM held)
)
SELECT held.lease_epoch AS epoch, coalesce(CAST(first.kind AS text), '') AS kind, coalesce(first.turn, '') AS turn,
       first.request_id, first.run_id, first.agent, first.root_ts,
       first.kind = 'card' AND first.is_post AND EXISTS (
           SELECT FROM approval_request AS r JOIN card_place AS p ON p.request_id = r.id AND p.surface = 'channel'
           WHERE r.id = first.request_id AND r.status = 'expired' AND p.closed = '{}') IS TRUE AS is_unseen,
       first.kind = 'thread_line' AND EXISTS (
           SELECT FROM card_place AS p WHERE p.request_id = first.request_id AND p.surface = 'channel'
                                         AND p.digest IS NOT NULL) IS TRUE AS in_group,
       (SELECT json_agg(batch ORDER BY id) FROM batch) AS parts, flood.is_flood,
       NOT EXISTS (SELECT FROM outlet WHERE team_id = :team AND channel_id = :channel)
       AND EXISTS (SELECT FROM delivery
                   WHERE team_id = :team AND channel_id = :channel AND state = 'pending') AS is_new,
       (SELECT CAST(extract(epoch FROM min(pace.rests_until) - here.now) AS float)
        FROM here CROSS JOIN LATERAL (
            VALUES (here.next_at), (here.next_update_at), (here.next_redraw_at)) AS pace (rests_until)
        WHERE pace.rests_until > here.now AND first.id IS NULL
          AND EXISTS (SELECT FROM (
                SELECT not_before FROM delivery WHERE team_id = :team AND channel_id = :channel AND state = 'pending'
                ORDER BY kind, priority, id LIMIT (SELECT CAST(NULL AS int))) AS d WHERE d.not_before <= here.now)
        GROUP BY here.now) AS wait,
       coalesce((SELECT NOT may_post AND NOT may_change FROM here), false) AS rests
FROM flood LEFT JOIN first ON true LEFT JOIN held ON true
""")
"""Take the channel's next message unless another drain has the channel. A post is marked before Slack can have it, with
the time: it is searched for from then on. Earlier versions mark no time.

Waits for no lock, because its transaction may hold the previous delivery. Another drain may have come since the
statement began, so the epoch, which every lease and release increments, is compared again under the lock.

Changes of small print (priority 2) go last, and only `:redraw_after` seconds after the channel may be changed again.

Senders take turns, for posts and updates separately: those not in `:served` first, then in its order, except for
history. An answer takes its thread's earlier lines along unless postponed. A line that Slack may already have goes
alone.

A channel may have very many messages, so each kind is read in index order, only as far as needed, and not while none
of it may go. While only new messages may go, unposted ones are read instead of the updates before them. A limit
unknown at planning time (`NULL`: none) makes PostgreSQL expect few rows, so it does not sort all.

After a flood, until the next ANALYZE, PostgreSQL assumes few pending rows and would read all to find one by id. `IS
NOT FALSE` keeps such lookups off the index of pending rows.
"""
