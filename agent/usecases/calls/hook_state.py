"""What a tool has prepared for the pending action.

Written before ``on_pending`` runs, so that after a crash another worker knows what may be prepared. After an edit,
``on_refused`` (cause "edited") undoes it before the hook runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.store import call_locks, calls, request_locks, views


async def mark_prepared(db: Database, call_id: UUID, action: bytes) -> bool:
    """Call before ``on_pending`` runs. False: the action is not pending."""
    return await _while_asked(db, call_id, action, lambda tx: calls.mark_prepared(tx, call_id, action))


async def mark_announced(db: Database, call_id: UUID, action: bytes) -> bool:
    """Call after the hook. False: the action is no longer pending."""
    return await _while_asked(db, call_id, action, lambda tx: calls.mark_announced(tx, call_id))


async def is_superseded(db: Database, call_id: UUID, action: bytes) -> bool:
    """Return whether another action, or none, is on record as prepared for this call."""
    return await db.read(views.prepared_action, call_id) != action


async def clear_prepared(db: Database, call_id: UUID, action: bytes) -> None:
    """Forget that this action is prepared for the call; a record of another action stays."""
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
