"""Child and parent runs. Locks go upwards: child run, parent, the parent's call."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.domain.run import NewRun
from agent.store import outbox
from agent.store.outbox import Destination, OutboxMessage
from agent.store.rows import person


async def run_with_descendants(connection: Connection, run_id: UUID) -> Sequence[UUID]:
    """Runs in lock order: descendants first."""
    return list((await connection.execute(_FAMILY, {"id": run_id})).scalars())


async def child_run(
    connection: Connection, run_id: UUID, call_id: UUID, agent: str, version: str, task: str
) -> NewRun:
    """The child run inherits its parent's requester and channel."""
    row = (await connection.execute(_ORIGIN, {"run": run_id})).one()
    return NewRun(
        agent=agent,
        agent_version=version,
        task=task,
        principal=row.principal,
        requester=person(row.requester_team_id, row.requester_user_id),
        requester_asserted=row.requester_asserted,
        team_id=row.team_id,
        channel_id=row.channel_id,
        parent_run_id=run_id,
        parent_call_id=call_id,
        api_key_id=row.api_key_id,
    )


async def child_run_of(connection: Connection, call_id: UUID) -> UUID | None:
    """Return the child run that a delegated call started, or None if it has none."""
    return (await connection.execute(_BELOW, {"call": call_id})).scalar_one_or_none()


def ancestor_roots(destination: Destination, ancestor_ids: Sequence[UUID]) -> list[OutboxMessage]:
    """First messages of the ancestors, nearest first; all are in the run's channel."""
    return [outbox.run_root(destination, run_id) for run_id in reversed(ancestor_ids)]


async def orphans(connection: Connection, limit: int = 100) -> list[UUID]:
    """Return child runs of calls still delegated whose parent run was denied, failed or was cancelled."""
    return list((await connection.execute(_ORPHANS, {"limit": limit})).scalars())


_ORIGIN = text("""
SELECT principal, api_key_id, requester_team_id, requester_user_id, requester_asserted, team_id, channel_id
FROM agent_run WHERE id = :run
""")
_BELOW = text("""
SELECT r.id FROM tool_call AS c JOIN agent_run AS r ON r.parent_run_id = c.run_id AND r.parent_call_id = c.id
WHERE c.id = :call
""")
_ORPHANS = text("""
SELECT r.id FROM tool_call AS c
JOIN agent_run AS a ON a.id = c.run_id AND a.status IN ('denied', 'failed', 'cancelled')
JOIN agent_run AS r ON r.parent_run_id = c.run_id AND r.parent_call_id = c.id
WHERE c.state = 'delegated' LIMIT :limit
""")
_FAMILY = text("""
WITH RECURSIVE family AS (
    SELECT id, 0 AS depth FROM agent_run WHERE id = :id
    UNION ALL SELECT r.id, f.depth + 1 FROM agent_run AS r JOIN family AS f ON r.parent_run_id = f.id
)
SELECT id FROM family ORDER BY depth DESC, id
""")
