"""What a tool has prepared for the action that people are asked about, so that it can take it back, once they are not.

The action is written down before the tool's ``on_pending`` hook runs: should the worker die then, another one knows
what may have been prepared. An edit by a reviewer makes it another action; what was prepared for the one before is
taken back first (``on_refused`` with the cause "edited"), then the hook runs for the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from agent.store import locks, reads
from agent.store.batch import Batch
from agent.store.database import Database
from agent.store.writes import calls

__all__ = ["announce", "hold", "is_passed_over", "let_go"]


async def hold(db: Database, call_id: UUID, action: bytes) -> bool:
    """The tool's ``on_pending`` hook is about to run for this action (canonical bytes).

    False: people are asked about something else by now, or about nothing any more.
    """
    return await _while_asked(db, call_id, action, lambda batch: calls.hold(batch, call_id, action))


async def announce(db: Database, call_id: UUID, action: bytes) -> bool:
    """The hook has run for this action. False: it is not, or no more, what people are asked about."""
    return await _while_asked(db, call_id, action, lambda batch: calls.announce(batch, call_id))


async def is_passed_over(db: Database, call_id: UUID, action: bytes) -> bool:
    """Whether somebody has taken it back, or prepared something else, since ``hold`` noted this action."""
    async with db.connection() as connection:
        return await reads.held_action(connection, call_id) != action


async def let_go(db: Database, call_id: UUID, action: bytes) -> None:
    """The tool has taken back what it had prepared for this action."""
    async with db.transaction() as connection:
        batch = Batch()
        calls.let_go(batch, call_id, action)
        await batch.send(connection)


async def _while_asked(db: Database, call_id: UUID, action: bytes, write: Callable[[Batch], None]) -> bool:
    async with db.transaction() as connection:
        await locks.request_behind(connection, call_id)
        if await locks.asked_action(connection, call_id) != action:
            return False
        batch = Batch()
        write(batch)
        await batch.send(connection)
    return True
