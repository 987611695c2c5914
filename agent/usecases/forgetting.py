"""Delete sent messages and notices a week later, in batches that leave others half of the database's time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.store import deliveries, outbound, retention

KEPT_DAYS = 7

AT_ONCE = 1_000
"""Rows that one transaction deletes."""

Rest = Callable[[float], Awaitable[object]]
"""Wait for so many seconds."""

_Step = Callable[[Transaction, datetime, UUID, int], Awaitable[Sequence[UUID]]]


async def messages(db: Database, *, days: float = KEPT_DAYS, rest: Rest = asyncio.sleep) -> int:
    """Delete messages to Slack that were sent or skipped and are older than this; return how many."""
    return await _forget(db, deliveries.forget_sent, days, rest)


async def notices(db: Database, *, days: float = KEPT_DAYS, rest: Rest = asyncio.sleep) -> int:
    """Delete notices to webhooks and mailboxes that were sent or skipped and are older than this; return how many."""
    return await _forget(db, outbound.forget_sent, days, rest)


async def _forget(db: Database, step: _Step, days: float, rest: Rest) -> int:
    """Rest after each batch for as long as it took: a backlog of millions takes minutes, and people work meanwhile."""
    before = await db.read(retention.cutoff, timedelta(days=days))
    after, total = retention.FIRST, 0
    while True:
        begun = time.monotonic()
        async with db.transaction() as tx:
            gone = await step(tx, before, after, AT_ONCE)
        total += len(gone)
        if len(gone) < AT_ONCE:
            return total
        after = gone[-1]
        await rest(time.monotonic() - begun)
