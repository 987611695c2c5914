"""Writes about places: where a request can be acted on besides its card in the channel."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.store.ids import new_nonce
from signoff.values import Person


async def insert_personal(
    connection: Connection, request_ids: Sequence[UUID], surface: str, person: Person
) -> dict[UUID, str]:
    """This person's places for these requests, made where they are missing; ids that are unknown stay out."""
    key = {"ids": list(request_ids), "surface": surface, "team": person.team_id, "user": person.user_id}
    nonces = [new_nonce() for _ in request_ids]
    await connection.execute(_MAKE, key | {"nonces": nonces})
    rows = (await connection.execute(_FIND, key)).all()
    return {row.request_id: row.nonce for row in rows}


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
