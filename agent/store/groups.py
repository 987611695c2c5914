"""A group's members and message; see `agent.domain.groups`."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.groups import group_name
from agent.store.ids import new_id
from agent.store.outbox import Destination


async def form(
    connection: Connection, destination: Destination, batch: str, *, group_from: int, cards_per_minute: int
) -> str | None:
    """Make a group of the requests that are gathered under this name, and return its name.

    None: too few of them still wait, or the channel has no room for another message of their sender.
    """
    name = group_name(new_id())
    key = {"team": destination.team_id, "channel": destination.channel_id, "batch": batch, "name": name}
    formed = await connection.execute(
        _FORM, {**key, "group_from": group_from, "cards_per_minute": cards_per_minute}
    )
    return name if formed.scalar_one_or_none() else None


async def release(connection: Connection, destination: Destination, digest: str) -> list[UUID]:
    """Give the requests that are gathered under a batch's name, or in a group, cards of their own; return their ids.

    The group ends.
    """
    key = {"team": destination.team_id, "channel": destination.channel_id, "digest": digest}
    return list((await connection.execute(_RELEASE, key)).scalars())


async def leave(connection: Connection, destination: Destination) -> list[str]:
    """Let requests leave their groups whose cards have more to show: edited, escalated, or in doubt.

    Only those whose card is due. Returns the names of the digests that they leave.
    """
    key = {"team": destination.team_id, "channel": destination.channel_id}
    return sorted({row.digest for row in await connection.execute(_LEAVE, key)})


async def given_up(connection: Connection) -> list[tuple[Destination, str]]:
    """Return the groups whose message was given up while some of them still wait."""
    return [
        (Destination(row.team_id, row.channel_id), row.digest) for row in await connection.execute(_GIVEN_UP)
    ]


def place(tx: Transaction, name: str, ts: str) -> None:
    """Store the ``ts`` of a group's message, which has told of its members."""
    tx.add(_PLACE, name=name, ts=ts)
    tx.add(_TOLD, name=name)


# All of a batch's requests have one sender.
_FORM = text("""
WITH member AS MATERIALIZED (
    SELECT p.nonce, r.status = 'waiting' AS waits,
           CASE r.source WHEN 'api' THEN r.principal ELSE r.agent END AS sender
    FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id
    WHERE p.digest = :batch AND p.team_id = :team AND p.channel_id = :channel
), whose AS (
    SELECT min(sender) AS sender FROM member HAVING count(*) FILTER (WHERE waits) >= CAST(:group_from AS int)
), lately AS (
    SELECT (SELECT count(*) FROM card_place AS q JOIN approval_request AS s ON s.id = q.request_id
            WHERE q.team_id = :team AND q.channel_id = :channel AND q.surface = 'channel'
              AND CASE s.source WHEN 'api' THEN s.principal ELSE s.agent END = whose.sender AND q.ts >= since.ts)
         + (SELECT count(*) FROM request_group AS g
            WHERE g.team_id = :team AND g.channel_id = :channel AND g.sender = whose.sender
              AND (g.ts >= since.ts OR g.ts IS NULL))
           AS posts, whose.sender
    FROM whose CROSS JOIN (
        SELECT CAST(CAST(extract(epoch FROM clock_timestamp()) - 60 AS bigint) AS text) AS ts) AS since
), formed AS (
    INSERT INTO request_group (name, team_id, channel_id, sender)
    SELECT CAST(:name AS text), CAST(:team AS text), CAST(:channel AS text), sender
    FROM lately WHERE posts < CAST(:cards_per_minute AS int)
    RETURNING name
), moved AS (
    UPDATE card_place AS p SET digest = formed.name FROM formed, member WHERE p.nonce = member.nonce
)
SELECT name FROM formed
""")
_RELEASE = text("""
WITH ended AS (DELETE FROM request_group WHERE name = :digest)
UPDATE card_place SET digest = NULL, folded = false
WHERE digest = :digest AND team_id = :team AND channel_id = :channel
RETURNING request_id
""")
_LEAVE = text("""
WITH due AS (
    SELECT p.nonce, p.digest FROM card_place AS p
    JOIN delivery AS d ON d.request_id = p.request_id AND d.kind = 'card' AND (d.state = 'pending') IS NOT FALSE
    JOIN approval_request AS r ON r.id = p.request_id
    WHERE p.team_id = :team AND p.channel_id = :channel AND p.digest IS NOT NULL
      AND (r.revision > 1 OR r.escalated_at IS NOT NULL OR EXISTS (
          SELECT FROM execution AS e WHERE e.request_id = r.id AND e.status = 'in_doubt'))
    FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE card_place AS p SET digest = NULL, folded = false FROM due WHERE p.nonce = due.nonce
RETURNING due.digest
""")
_GIVEN_UP = text("""
SELECT DISTINCT d.team_id, d.channel_id, d.agent AS digest
FROM delivery AS d
JOIN card_place AS p ON p.digest = d.agent
JOIN approval_request AS r ON r.id = p.request_id AND r.status = 'waiting'
WHERE d.state = 'dead' AND d.kind = 'digest' AND d.agent LIKE 'group:%'
""")
_PLACE = text("UPDATE request_group SET ts = :ts WHERE name = :name")
_TOLD = text("""
UPDATE card_place SET told_at = clock_timestamp() WHERE digest = :name AND told_at IS NULL
""")
