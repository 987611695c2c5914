"""How people have chosen to be told; ``outbox.enqueue`` reads it with each outcome."""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.notify_choice import NotifyChoice
from signoff.values import Person


async def find(connection: Connection, person: Person) -> NotifyChoice:
    """Return a person's choice, which is the thread if they have made none."""
    found = await connection.execute(_FIND, {"team": person.team_id, "user": person.user_id})
    return NotifyChoice(found.scalar_one_or_none() or NotifyChoice.THREAD)


def put(tx: Transaction, person: Person, way: NotifyChoice, channel_id: str | None) -> None:
    """Store a person's choice in place of an earlier one, with the channel of their direct messages."""
    tx.add(_PUT, team=person.team_id, user=person.user_id, way=way.value, channel=channel_id)


_FIND = text("SELECT way FROM notify_choice WHERE team_id = :team AND user_id = :user")
_PUT = text("""
INSERT INTO notify_choice (team_id, user_id, way, channel_id) VALUES (:team, :user, :way, :channel)
ON CONFLICT (team_id, user_id) DO UPDATE SET way = excluded.way, channel_id = excluded.channel_id
""")
