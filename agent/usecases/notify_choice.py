"""People choose how they are told of the outcome of what they asked for."""

from __future__ import annotations

from agent.database.pools import Database
from agent.domain.notify_choice import NotifyChoice
from agent.store import notify_choice
from signoff.values import Person


async def find(db: Database, person: Person) -> NotifyChoice:
    """Return how a person wants to hear of outcomes."""
    return await db.read(notify_choice.find, person)


async def choose(db: Database, person: Person, way: NotifyChoice, channel_id: str | None = None) -> None:
    """``channel_id``: of their own conversation with the app, for direct messages."""
    async with db.transaction() as tx:
        notify_choice.put(tx, person, way, channel_id)
