"""The pause switch: rows that name what must not begin.

A claim holds the switch shared until COMMIT, and a pause waits for such claims: once it has returned, nothing that it
names begins. Every statement that begins something has this check::

    EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', run.agent) OR scope = ANY (run.ancestor_agents))
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.pause import EVERYTHING, Pause
from agent.store.outbox import Destination

HOLD = text("SELECT pg_advisory_xact_lock_shared(hashtextextended('signoff pause ' || current_schema(), 0))")
"""For transactions that evaluate or claim; send it before the statement that reads the switch.

Applying a policy takes the switch, too, so the policy's epoch cannot change before COMMIT.
"""

TRY_HOLD = text("""
SELECT pg_try_advisory_xact_lock_shared(hashtextextended('signoff pause ' || current_schema(), 0)) AS held
""")


async def lock_switch(connection: Connection) -> None:
    """Hold the switch exclusively, behind every running claim."""
    await connection.execute(_TURN)


async def active_pauses(connection: Connection) -> list[Pause]:
    """The pause of everything comes first."""
    rows = (await connection.execute(_LIST, {"everything": EVERYTHING})).all()
    return [
        Pause(None if row.scope == EVERYTHING else row.scope, row.by, row.reason, row.created_at)
        for row in rows
    ]


async def known_agents(connection: Connection) -> list[str]:
    """Return the name of every agent that has had a run or a request, sorted."""
    return list((await connection.execute(_AGENTS)).scalars())


def insert(tx: Transaction, scope: str, by: str, reason: str | None, at: datetime) -> None:
    """Pause an agent, or all with the scope `*`; the database refuses a scope that is paused."""
    tx.add(_BEGIN, scope=scope, by=by, reason=reason, at=at)


def delete(tx: Transaction, scope: str) -> None:
    """End the pause of this scope, if there is one."""
    tx.add(_END, scope=scope)


@dataclass(frozen=True, slots=True)
class HeldCall:
    """An approved call that has not begun; the channel is its card's."""

    call_id: UUID
    agent: str
    request_id: UUID
    team_id: str
    channel_id: str


async def held_calls(connection: Connection, scope: str) -> list[HeldCall]:
    """Cards beyond 500 are redrawn with their next change."""
    rows = (await connection.execute(_HELD_UP, {"scope": scope})).all()
    return [HeldCall(row.call_id, row.agent, row.id, row.team_id, row.channel_id) for row in rows]


async def held_runs(connection: Connection, scope: str) -> list[tuple[UUID, Destination]]:
    """The 500 newest running runs."""
    rows = (await connection.execute(_HELD_RUNS, {"scope": scope})).all()
    return [(row.id, Destination(row.team_id, row.channel_id)) for row in rows]


async def waiting_cards(connection: Connection, scope: str) -> list[tuple[UUID, Destination]]:
    """The 500 newest waiting requests."""
    rows = (await connection.execute(_WAITING, {"scope": scope})).all()
    return [(row.id, Destination(row.team_id, row.channel_id)) for row in rows]


_TURN = text("SELECT pg_advisory_xact_lock(hashtextextended('signoff pause ' || current_schema(), 0))")
_LIST = text("SELECT scope, by, reason, created_at FROM pause ORDER BY scope <> :everything, scope")
_AGENTS = text("SELECT agent FROM agent_run UNION SELECT agent FROM approval_request ORDER BY agent")
_BEGIN = text("INSERT INTO pause (scope, by, reason, created_at) VALUES (:scope, :by, :reason, :at)")
_END = text("DELETE FROM pause WHERE scope = :scope")
_WAITING = text("""
SELECT request.id, request.team_id, request.channel_id FROM approval_request AS request
JOIN card_place AS place ON place.request_id = request.id AND place.surface = 'channel' AND NOT place.folded
LEFT JOIN agent_run AS run ON run.id = request.run_id
WHERE request.status = 'waiting' AND (:scope IN ('*', request.agent) OR :scope = ANY (run.ancestor_agents))
ORDER BY request.id DESC LIMIT 500
""")
_HELD_RUNS = text("""
SELECT run.id, run.team_id, run.channel_id FROM agent_run AS run
WHERE run.status IN ('working', 'pending_approval') AND run.team_id IS NOT NULL AND run.channel_id IS NOT NULL
    AND (:scope IN ('*', run.agent) OR :scope = ANY (run.ancestor_agents))
ORDER BY run.id DESC LIMIT 500
""")
_HELD_UP = text("""
SELECT call.id AS call_id, call.agent, request.id, request.team_id, request.channel_id FROM tool_call AS call
JOIN approval_request AS request ON request.call_id = call.id AND request.ask_no = call.ask_no
JOIN agent_run AS run ON run.id = call.run_id
WHERE call.state = 'ready' AND (:scope IN ('*', run.agent) OR :scope = ANY (run.ancestor_agents)) LIMIT 500
""")
