"""The use case of erasing what ended long ago. It needs the rights of the schema's owner, not the service's role.

What waits, is under way or is in doubt is never touched. Votes, decisions, digests and the record stay, so that
the chains still verify; each batch is recorded in the transaction that erases it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from agent.domain.audit import AuditKind
from agent.store import chain, retention
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.database import Database
from agent.store.faults import DatabaseUnusable

SUBJECT = "retention"
"""The chain in which every erasure is recorded."""

ROWS_AT_ONCE = 10
"""Deliveries and notices are small: so many times a batch's size go at once."""


@dataclass(frozen=True, slots=True)
class Erased:
    """How much was erased, or is due to be. ``requests`` includes those of the runs."""

    runs: int = 0
    requests: int = 0
    deliveries: int = 0
    notices: int = 0

    @property
    def total(self) -> int:
        return self.runs + self.requests + self.deliveries + self.notices

    def __add__(self, other: Erased) -> Self:
        return type(self)(
            self.runs + other.runs,
            self.requests + other.requests,
            self.deliveries + other.deliveries,
            self.notices + other.notices,
        )


async def moment(db: Database, ago: timedelta) -> datetime:
    """The time so long ago, by the database's clock. Raises DatabaseUnusable when this login may not erase."""
    async with db.connection() as connection:
        if not await retention.is_owner(connection):
            raise DatabaseUnusable(
                f"the login of {db.address} does not own the schema {db.schema!r}, so it may not erase: "
                "set SIGNOFF_OWNER_URL to its owner's address"
            )
        return await retention.moment(connection, ago)


async def due(db: Database, before: datetime) -> Erased:
    """How much ended before that time and has not been erased yet; changes nothing."""
    async with db.connection() as connection:
        return Erased(*await retention.count(connection, before))


async def erase(db: Database, before: datetime, *, by: str, batch_size: int = 200) -> AsyncIterator[Erased]:
    """Erase what ended before that time, a batch a transaction; yields each batch's count.

    That somebody erased is part of the record even when there was nothing to erase. Raises DatabaseUnavailable;
    what was yielded is erased by then.
    """
    anything = False
    for step in (_runs, _requests, _deliveries, _notices):
        after: UUID | None = retention.FIRST
        while after is not None:
            async with db.transaction() as connection:
                found, after = await step(connection, before, after, batch_size)
                if found.total:
                    await _record(connection, found, before, by)
            if found.total:
                anything = True
                yield found
    if not anything:
        async with db.transaction() as connection:
            await _record(connection, Erased(), before, by)


_Step = tuple[Erased, UUID | None]
"""What a batch erased, and after which id the next one goes on; ``None``: there is no more."""


async def _runs(connection: AsyncConnection, before: datetime, after: UUID, limit: int) -> _Step:
    ids = await retention.runs(connection, before, after, limit)
    asked = await retention.erase_runs(connection, ids) if ids else 0
    return Erased(runs=len(ids), requests=asked), ids[-1] if ids else None


async def _requests(connection: AsyncConnection, before: datetime, after: UUID, limit: int) -> _Step:
    ids = await retention.requests(connection, before, after, limit)
    if ids:
        await retention.erase_requests(connection, ids)
    return Erased(requests=len(ids)), ids[-1] if ids else None


async def _deliveries(connection: AsyncConnection, before: datetime, after: UUID, limit: int) -> _Step:
    gone = await retention.forget_deliveries(connection, before, limit * ROWS_AT_ONCE)
    return Erased(deliveries=gone), after if gone else None


async def _notices(connection: AsyncConnection, before: datetime, after: UUID, limit: int) -> _Step:
    gone = await retention.forget_notices(connection, before, limit * ROWS_AT_ONCE)
    return Erased(notices=gone), after if gone else None


async def _record(connection: AsyncConnection, found: Erased, before: datetime, by: str) -> None:
    await chain.found(connection, SUBJECT)
    head = (await chain.lock_heads(connection, [SUBJECT]))[SUBJECT]
    batch = Batch()
    detail = {"before": before.isoformat(), **asdict(found)}
    chain.append(batch, head, Entry(AuditKind.RETENTION_ERASED, by, detail))
    await batch.send(connection)
