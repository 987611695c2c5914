"""The statement that finds the channels with a message that may go out now."""

from __future__ import annotations

from sqlalchemy import text

CHANNELS_DUE = text("""
WITH RECURSIVE each (channel_id) AS (
    SELECT min(channel_id) FROM delivery WHERE team_id = :team AND state = 'pending'
    UNION ALL
    SELECT (SELECT min(channel_id) FROM delivery
            WHERE team_id = :team AND state = 'pending' AND channel_id > each.channel_id)
    FROM each WHERE each.channel_id IS NOT NULL
), free AS MATERIALIZED (
    SELECT each.channel_id, clock.now, coalesce(o.next_at <= clock.now, true) AS may_post,
           coalesce(o.next_update_at <= clock.now, true) AS may_change
    FROM each CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
    LEFT JOIN outlet AS o ON o.team_id = :team AND o.channel_id = each.channel_id
    WHERE each.channel_id IS NOT NULL AND (o.lease_until IS NULL OR o.lease_until <= clock.now)
)
SELECT free.channel_id FROM free
WHERE EXISTS (
    SELECT FROM (VALUES
        (CAST('card' AS delivery_kind), may_change), ('run_root', may_change), ('digest', may_change OR may_post),
        ('direct', may_post), ('thread_line', may_post), ('run_line', may_post)
    ) AS lane (kind, is_open) CROSS JOIN LATERAL (
        SELECT FROM (
            SELECT * FROM delivery AS w
            WHERE w.team_id = :team AND w.channel_id = free.channel_id AND w.state = 'pending' AND w.kind = lane.kind
              AND lane.is_open AND w.not_before <= free.now
            ORDER BY w.priority, w.id LIMIT (SELECT CAST(NULL AS int))) AS d
        CROSS JOIN LATERAL (SELECT coalesce(
            (SELECT ts FROM card_place WHERE request_id = d.request_id AND surface = 'channel'),
            (SELECT thread_ts FROM agent_run WHERE id = d.run_id), d.body ->> 'outdated',
            (SELECT g.ts FROM digest_card AS g WHERE g.team_id = :team AND g.channel_id = free.channel_id
                                                 AND g.agent = d.agent AND NOT g.outdated),
            CASE d.kind WHEN 'digest' THEN (SELECT ts FROM request_group WHERE name = d.agent)
                        WHEN 'thread_line' THEN (
                            SELECT g.ts FROM card_place AS p JOIN request_group AS g ON g.name = p.digest
                            WHERE p.request_id = d.request_id AND p.surface = 'channel') END) AS ts) AS root
        WHERE CASE WHEN d.kind IN ('thread_line', 'run_line')
              THEN root.ts IS NOT NULL
                   AND NOT EXISTS (SELECT FROM delivery AS e
                                   WHERE (e.state = 'pending') IS NOT FALSE AND e.kind = d.kind AND e.id < d.id
                                   AND (e.request_id = d.request_id OR e.run_id = d.run_id))
              WHEN d.kind <> 'direct' AND root.ts IS NOT NULL THEN may_change
              ELSE may_post END
        LIMIT 1) AS first
) OR may_post AND EXISTS (
    SELECT FROM card_place AS p JOIN delivery AS n ON n.request_id = p.request_id AND n.kind = 'card'
    WHERE p.team_id = :team AND p.channel_id = free.channel_id AND p.ts IS NULL AND NOT p.folded
      AND (n.state = 'pending') IS NOT FALSE AND n.not_before <= free.now
) OR may_post AND EXISTS (
    SELECT FROM agent_run AS a JOIN delivery AS n ON n.run_id = a.id AND n.kind = 'run_root'
    WHERE a.team_id = :team AND a.channel_id = free.channel_id AND a.thread_ts IS NULL
      AND (n.state = 'pending') IS NOT FALSE AND n.not_before <= free.now
) OR EXISTS (
    SELECT FROM card_place AS p JOIN delivery AS d ON d.request_id = p.request_id
    WHERE p.team_id = :team AND p.channel_id = free.channel_id AND p.surface = 'channel' AND p.folded AND p.ts IS NULL
      AND (d.state = 'pending') IS NOT FALSE AND d.kind IN ('card', 'thread_line') AND NOT d.ambiguous
      AND CASE d.kind WHEN 'thread_line' THEN p.digest IS NULL
                      ELSE p.told_at IS NOT NULL OR d.not_before <= free.now END
)
ORDER BY random()
""")
"""Unleased channels where a message may be sent or a folded request left work.

Costs one index step per channel and a look at the first message of each kind. A line whose thread has no root yet
makes no channel due. Conditions and `IS NOT FALSE`: see `next_delivery`.
"""
