"""What a tool has prepared for the action that people are asked about, so that it can take it back.

Written before the tool's ``on_pending`` hook runs: after a crash another worker knows what may be prepared. After an
edit, the earlier preparation is taken back first (``on_refused``, cause "edited"), then the hook runs for the new
action.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.store import call_locks, calls, request_locks, views


async def mark_prepared(db: Database, call_id: UUID, action: bytes) -> bool:
    """``on_pending`` is about to run for this action. False: people are asked about something else, or nothing."""
    return await _while_asked(db, call_id, action, lambda tx: calls.mark_prepared(tx, call_id, action))


async def mark_announced(db: Database, call_id: UUID, action: bytes) -> bool:
    """The hook has run for this action. False: it is not, or no more, what people are asked about."""
    return await _while_asked(db, call_id, action, lambda tx: calls.mark_announced(tx, call_id))


async def is_superseded(db: Database, call_id: UUID, action: bytes) -> bool:
    """Whether somebody has taken it back, or prepared something else, since ``hold`` noted this action."""
    return await db.read(views.prepared_action, call_id) != action


async def clear_prepared(db: Database, call_id: UUID, action: bytes) -> None:
    """The tool has taken back what it had prepared for this action."""
    async with db.transaction() as tx:
        calls.clear_prepared(tx, call_id, action)


async def _while_asked(
    db: Database, call_id: UUID, action: bytes, write: Callable[[Transaction], None]
) -> bool:
    async with db.transaction() as tx:
        await request_locks.lock_of_call(tx, call_id)
        if await call_locks.lock_asked(tx, call_id) != action:
            return False
        write(tx)
    return True
