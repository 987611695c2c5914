"""Places of cards: a nonce for each surface, and the posted message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.store import outbox
from agent.store.ids import new_nonce
from agent.store.outbox import Destination, OutboxMessage
from signoff.values import Person

LOOK_AFTER = 3600.0
"""Seconds until a card is looked at again."""


async def insert_personal(
    connection: Connection, request_ids: Sequence[UUID], surface: str, person: Person
) -> dict[UUID, str]:
    """Nonces by request, created if missing; skips unknown ids."""
    nonces = [new_nonce() for _ in request_ids]
    await connection.execute(_MAKE, _personal(request_ids, surface, person) | {"nonces": nonces})
    return await personal(connection, request_ids, surface, person)


async def personal(
    connection: Connection, request_ids: Sequence[UUID], surface: str, person: Person
) -> dict[UUID, str]:
    """Nonces of a person's places, by request."""
    rows = await fetch(connection, _FIND, **_personal(request_ids, surface, person))
    return {row.request_id: row.nonce for row in rows}


def _personal(request_ids: Sequence[UUID], surface: str, person: Person) -> dict[str, Any]:
    return {"ids": list(request_ids), "surface": surface, "team": person.team_id, "user": person.user_id}


async def message_of(connection: Connection, request_id: UUID) -> OutboxMessage | None:
    """Return what redraws a request's card or its group's message; None while neither is posted in a channel."""
    row = (await connection.execute(_CHANNEL, {"id": request_id})).one_or_none()
    if row is None:
        return None
    there = Destination(row.team_id, row.channel_id)
    return outbox.digest(there, row.name) if row.name else outbox.card(there, request_id)


async def group_at(connection: Connection, destination: Destination, ts: str) -> str | None:
    """Return the name of the group whose message this Slack message is, or None."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "ts": ts}
    found: str | None = (await connection.execute(_GROUP, key)).scalar_one_or_none()
    return found


async def request_of_card(connection: Connection, destination: Destination, ts: str) -> UUID | None:
    """Return the request whose channel card this Slack message is, or None if it is no card."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "ts": ts}
    found: UUID | None = (await connection.execute(_REQUEST, key)).scalar_one_or_none()
    return found


async def take_to_look_at(connection: Connection, team_id: str) -> tuple[Destination, str] | None:
    """The card (and its ``ts``) that people need and nobody has looked at for longest, if for an hour."""
    row = (await connection.execute(_TAKE_TO_LOOK_AT, {"team": team_id, "again": LOOK_AFTER})).one_or_none()
    return (Destination(row.team_id, row.channel_id), row.ts) if row else None


async def look_again(connection: Connection, destination: Destination, ts: str, seconds: float) -> None:
    """Set how many seconds from now a posted card is due to be looked at again."""
    key = {"team": destination.team_id, "channel": destination.channel_id, "ts": ts}
    await connection.execute(_LOOK_AGAIN, {**key, "seconds": seconds})


# People need the card of a waiting request, and of a call in doubt that nobody has settled. Other cards are not looked
# at any more.
_TAKE_TO_LOOK_AT = text("""
WITH due AS MATERIALIZED (
    SELECT p.nonce, p.look_at, r.status = 'waiting' OR EXISTS (
        SELECT FROM execution AS e WHERE e.request_id = r.id AND e.status = 'in_doubt'
        AND NOT EXISTS (SELECT FROM settlement AS s WHERE s.execution_id = e.id)) AS needed
    FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id
    WHERE p.team_id = :team AND p.ts IS NOT NULL AND p.look_at <= (SELECT clock_timestamp())
    ORDER BY p.look_at LIMIT 1000 FOR NO KEY UPDATE OF p SKIP LOCKED
), looked_at AS (
    UPDATE card_place AS p
    SET look_at = CASE WHEN due.needed THEN clock_timestamp() + make_interval(secs => :again) END
    FROM due WHERE p.nonce = due.nonce
      AND (NOT due.needed OR p.nonce = (SELECT nonce FROM due WHERE needed ORDER BY look_at LIMIT 1))
    RETURNING p.team_id, p.channel_id, p.ts, due.needed
)
SELECT team_id, channel_id, ts FROM looked_at WHERE needed
""")
_LOOK_AGAIN = text("""
UPDATE card_place SET look_at = clock_timestamp() + make_interval(secs => :seconds)
WHERE team_id = :team AND channel_id = :channel AND ts = :ts
""")
_CHANNEL = text("""
SELECT p.team_id, p.channel_id, g.name FROM card_place AS p LEFT JOIN request_group AS g ON g.name = p.digest
WHERE p.request_id = :id AND p.surface = 'channel' AND (p.ts IS NOT NULL OR g.name IS NOT NULL)
""")
_GROUP = text("""
SELECT name FROM request_group WHERE team_id = :team AND channel_id = :channel AND ts = :ts
""")
_REQUEST = text("""
SELECT request_id FROM card_place
WHERE team_id = :team AND channel_id = :channel AND ts = :ts AND surface = 'channel'
""")
_MAKE = text("""
INSERT INTO card_place (nonce, request_id, surface, team_id, user_id)
SELECT wanted.nonce, r.id, CAST(:surface AS surface), :team, :user
FROM unnest(CAST(:ids AS uuid[]), CAST(:nonces AS text[])) AS wanted (id, nonce)
JOIN approval_request AS r ON r.id = wanted.id ORDER BY r.id
ON CONFLICT (request_id, team_id, user_id, surface) WHERE surface IN ('home', 'modal') DO NOTHING
""")
_FIND = text("""
SELECT request_id, nonce FROM card_place
WHERE request_id = ANY(CAST(:ids AS uuid[])) AND team_id = :team AND user_id = :user
  AND surface = CAST(:surface AS surface) AND surface IN ('home', 'modal')
""")
