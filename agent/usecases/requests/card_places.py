"""Places of one person's own: buttons of a request in their App Home or in a modal that they opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.store import card_places as stored
from signoff.values import Person

OwnSurface = Literal["home", "modal"]


async def create_place(db: Database, request_id: UUID, surface: OwnSurface, person: Person) -> str:
    """The nonce under which this person may act on the request there. Raises ``NotFound``."""
    found = await create_places(db, [request_id], surface, person)
    if request_id not in found:
        raise NotFound(f"no request {request_id}")
    return found[request_id]


async def create_places(
    db: Database, request_ids: Sequence[UUID], surface: OwnSurface, person: Person
) -> dict[UUID, str]:
    """The nonces of many requests by their ids; the same as before for a place that exists."""
    if not request_ids:
        return {}
    async with db.transaction() as tx:
        return await stored.insert_personal(tx, request_ids, surface, person)
