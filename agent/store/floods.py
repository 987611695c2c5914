"""A flood: more new requests of one agent than a channel can show as cards. What does not fit is folded into a digest.

A folded request has no card and no thread; whatever would be told there is skipped, and its agent's digest updated.
"""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.store.outbox import Destination

RECENT = """
SELECT r.agent, count(*) AS lately FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id
WHERE p.team_id = :team AND p.channel_id = :channel AND p.surface = 'channel'
  AND p.ts >= (extract(epoch FROM clock_timestamp()) - 60)::bigint::text GROUP BY r.agent
"""
"""How many cards each agent has had in the channel within a minute; Slack's ``ts`` is the time of posting."""


async def is_flood(connection: Connection, destination: Destination, limit: int) -> bool:
    """Whether cards have to be folded."""
    return bool((await connection.execute(_FOUND, _key(destination, limit))).first())


async def has_stranded_lines(connection: Connection, destination: Destination) -> bool:
    """Whether lines wait for a thread that there will not be."""
    key = {"team": destination.team_id, "channel": destination.channel_id}
    return bool((await connection.execute(_STRANDED, key)).first())


async def fold(connection: Connection, destination: Destination, limit: int) -> list[str]:
    """Skip what exceeds the limit and what belongs to folded requests. Returns the agents concerned.

    What somebody else holds at this moment is left to the next look.
    """
    return list((await connection.execute(_FOLD, _key(destination, limit))).scalars())


def place_digest(tx: Transaction, destination: Destination, agent: str, ts: str) -> None:
    """The agent's digest is this message, as long as something in it waits: the next flood gets a new one."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "agent": agent}
    tx.add(_PLACE, ts=ts, **key)
    tx.add(_END, **key)


def _key(destination: Destination, limit: int) -> dict[str, str | int]:
    return {"team": destination.team_id, "channel": destination.channel_id, "limit": limit}


_BOTH = "(d.kind = 'card' OR (d.kind = 'thread_line' AND p.folded))"
_CARDS = "d.kind = 'card' AND d.priority < 2"  # which spares a look at all lines that wait
_EXCESS = f"""
SELECT w.id FROM (
    SELECT d.id, p.folded, r.agent,
           count(*) FILTER (WHERE NOT p.folded) OVER (PARTITION BY r.agent ORDER BY d.kind, d.priority, d.id) AS rank
    FROM delivery AS d
    JOIN card_place AS p ON p.request_id = d.request_id AND p.surface = 'channel' AND p.ts IS NULL
    JOIN approval_request AS r ON r.id = d.request_id
    WHERE d.team_id = :team AND d.channel_id = :channel AND d.state = 'pending' AND NOT d.ambiguous
      AND {{what}}
) AS w LEFT JOIN ({RECENT}) AS f ON f.agent = w.agent
WHERE w.folded OR w.rank > greatest(0, :limit - coalesce(f.lately, 0))
"""  # noqa: S608 - a constant
_FOUND = text(f"{_EXCESS.format(what=_CARDS)} LIMIT 1")
_STRANDED = text("""
SELECT 1 FROM delivery AS d
JOIN card_place AS p ON p.request_id = d.request_id AND p.surface = 'channel' AND p.folded AND p.ts IS NULL
WHERE d.team_id = :team AND d.channel_id = :channel AND d.state = 'pending' AND d.kind = 'thread_line' LIMIT 1
""")
_FOLD = text(f"""
WITH held AS (
    SELECT d.id, p.nonce, r.agent FROM delivery AS d
    JOIN card_place AS p ON p.request_id = d.request_id AND p.surface = 'channel'
    JOIN approval_request AS r ON r.id = d.request_id
    WHERE d.id IN ({_EXCESS.format(what=_BOTH)}) AND d.state = 'pending' ORDER BY d.id FOR UPDATE OF d, p SKIP LOCKED
), skipped AS (
    UPDATE delivery AS d SET state = 'skipped' FROM held WHERE d.id = held.id
), folded AS (
    UPDATE card_place AS p SET folded = true FROM held WHERE p.nonce = held.nonce AND NOT p.folded
)
SELECT DISTINCT agent FROM held ORDER BY agent
""")  # noqa: S608 - a constant
_PLACE = text("""
INSERT INTO digest_card (team_id, channel_id, agent, ts) VALUES (:team, :channel, :agent, :ts)
ON CONFLICT (team_id, channel_id, agent) DO UPDATE SET ts = excluded.ts
""")
_END = text("""
DELETE FROM digest_card WHERE team_id = :team AND channel_id = :channel AND agent = :agent
  AND NOT EXISTS (SELECT 1 FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id
                  WHERE p.folded AND p.team_id = :team AND p.channel_id = :channel
                    AND r.agent = :agent AND r.status = 'waiting')
""")
