"""Sweeps that keep failing, on record: any process can name them, whichever scheduler ran them.

Only changes are recorded. Each event holds all sweeps that fail since, so the last one is enough to know.
"""

from __future__ import annotations

from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.store import audit, overdue
from agent.store.audit import AuditEntry
from agent.store.overdue import SUBJECT


async def list_failing(db: Database) -> dict[str, str]:
    """Each sweep's error, by its name."""
    return await db.read(overdue.failing)


async def note_failing(db: Database, sweep: str, error: str) -> bool:
    """Record that ``sweep`` keeps failing; ``error`` is the error's type. False: that is known."""
    return await _change(db, sweep, error)


async def note_recovered(db: Database, sweep: str) -> bool:
    """Record that ``sweep`` works again. False: it did not fail."""
    return await _change(db, sweep, None)


async def _change(db: Database, sweep: str, error: str | None) -> bool:
    if (sweep in await list_failing(db)) is (error is not None):
        return False
    async with db.transaction() as tx:
        await audit.create_head(tx, SUBJECT)
        head = await audit.lock_head(tx, SUBJECT)
        failing = await overdue.failing(tx)
        if (failing.pop(sweep, None) is None) is (error is None):
            return False
        kind = AuditKind.SWEEP_RECOVERED
        if error is not None:
            kind, failing[sweep] = AuditKind.SWEEP_FAILED, error
        detail = {"sweep": sweep, "failing": failing}
        audit.append(tx, head, AuditEntry(kind, audit.SYSTEM, detail))
    return True
