"""Erase what ended long ago, with the schema owner's rights.

Nothing that waits, runs or is in doubt is touched. Votes, decisions, digests and audit entries stay, so chains still
verify; each batch is recorded in its own transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

import structlog
from sqlalchemy.exc import DBAPIError

from agent.database.errors import DatabaseUnusable, in_one_line
from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind
from agent.store import audit, retention

SUBJECT = "retention"

ROWS_AT_ONCE = 10
"""Deliveries and notices are small, so batches take this many times more."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ErasureCounts:
    """``requests`` includes those of runs; ``broken`` cannot be erased."""

    runs: int = 0
    requests: int = 0
    deliveries: int = 0
    notices: int = 0
    judgements: int = 0
    broken: int = 0

    @property
    def total(self) -> int:
        return self.runs + self.requests + self.deliveries + self.notices + self.judgements

    def __add__(self, other: ErasureCounts) -> Self:
        return type(self)(
            self.runs + other.runs,
            self.requests + other.requests,
            self.deliveries + other.deliveries,
            self.notices + other.notices,
            self.judgements + other.judgements,
            self.broken + other.broken,
        )


async def cutoff(db: Database, ago: timedelta) -> datetime:
    """The time so long ago (database clock). Raises DatabaseUnusable if this login may not erase."""
    async with db.connection() as connection:
        if not await retention.is_owner(connection):
            raise DatabaseUnusable(
                f"the login of {db.address} does not own the schema {db.schema!r}, so it may not erase: "
                "set SIGNOFF_OWNER_URL to its owner's address"
            )
        return await retention.cutoff(connection, ago)


async def due(db: Database, before: datetime) -> ErasureCounts:
    """Return how much content from before this time would be erased; nothing is locked or erased."""
    return ErasureCounts(*await db.read(retention.count, before))


async def erase(
    db: Database, before: datetime, *, by: str, batch_size: int = 200
) -> AsyncIterator[ErasureCounts]:
    """Yields each batch's count. Failures are logged, erasures recorded."""
    anything = False
    for step in (_runs, _requests, _deliveries, _notices, _judgements):
        after: UUID | None = retention.FIRST
        while after is not None:
            async with db.transaction() as tx:
                found, after = await step(tx, before, after, batch_size)
                if found != ErasureCounts():
                    await _record(tx, found, before, by)
            if found != ErasureCounts():
                anything = True
                yield found
    if not anything:
        async with db.transaction() as tx:
            await _record(tx, ErasureCounts(), before, by)


_Step = tuple[ErasureCounts, UUID | None]
"""A batch, and the id after which the next begins."""


async def _runs(tx: Transaction, before: datetime, after: UUID, limit: int) -> _Step:
    ids = await retention.runs(tx, before, after, limit)
    return await _together(tx, _erase_runs, ids), ids[-1] if ids else None


async def _erase_runs(tx: Transaction, ids: Sequence[UUID]) -> ErasureCounts:
    return ErasureCounts(runs=len(ids), requests=await retention.erase_runs(tx, ids))


async def _requests(tx: Transaction, before: datetime, after: UUID, limit: int) -> _Step:
    ids = await retention.requests(tx, before, after, limit)
    due = await retention.still_due(tx, ids, before) if ids else []
    return await _together(tx, _erase_requests, due), ids[-1] if ids else None


async def _erase_requests(tx: Transaction, ids: Sequence[UUID]) -> ErasureCounts:
    await retention.erase_requests(tx, ids)
    return ErasureCounts(requests=len(ids))


async def _together(
    tx: Transaction,
    erase_these: Callable[[Transaction, Sequence[UUID]], Awaitable[ErasureCounts]],
    ids: Sequence[UUID],
) -> ErasureCounts:
    """Erase all at once; if that fails, one by one, leaving out only the broken item."""
    if not ids:
        return ErasureCounts()
    try:
        async with tx.savepoint():
            return await erase_these(tx, ids)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        if len(ids) == 1:
            why = in_one_line(error)  # the rest of the message, or a traceback, could show the row
            log.error("content could not be erased", action="retention.failed", item=str(ids[0]), error=why)  # noqa: TRY400
            return ErasureCounts(broken=1)
    found = ErasureCounts()
    for each in ids:
        found += await _together(tx, erase_these, [each])
    return found


async def _deliveries(tx: Transaction, before: datetime, after: UUID, limit: int) -> _Step:
    gone = await retention.forget_deliveries(tx, before, limit * ROWS_AT_ONCE)
    return ErasureCounts(deliveries=gone), after if gone else None


async def _notices(tx: Transaction, before: datetime, after: UUID, limit: int) -> _Step:
    gone = await retention.forget_notices(tx, before, limit * ROWS_AT_ONCE)
    return ErasureCounts(notices=gone), after if gone else None


async def _judgements(tx: Transaction, before: datetime, after: UUID, limit: int) -> _Step:
    erased = await retention.erase_judgements(tx, before, limit * ROWS_AT_ONCE)
    return ErasureCounts(judgements=erased), after if erased else None


async def _record(tx: Transaction, found: ErasureCounts, before: datetime, by: str) -> None:
    await audit.create_head(tx, SUBJECT)
    detail = {"before": before.isoformat(), **asdict(found)}
    await audit.record(tx, SUBJECT, AuditKind.RETENTION_ERASED, by, detail)
