"""Use cases on notices, delivered at least once: a notice taken without an outcome is sent again."""

from __future__ import annotations

from datetime import timedelta

from agent.database.pools import Database
from agent.domain.outbound import OutboundMessage
from agent.store import outbound

LEASE = 60.0
"""Seconds that a sender has for what it took, before another one takes it."""

FIRST_PAUSE = 5.0
LONGEST_PAUSE = timedelta(hours=6).total_seconds()
ATTEMPTS = 16
"""The pauses double from the first to the longest: with them, so many attempts take about a day."""

KEPT_DAYS = 7
"""How long it is kept that something was told."""


async def lease_due(db: Database, target: str, limit: int) -> list[OutboundMessage]:
    """What this target should be told now, for ``LEASE`` seconds; nobody else takes it meanwhile."""
    async with db.transaction() as tx:
        return await outbound.lease_due(tx, target, limit, LEASE)


async def mark_sent(db: Database, notice: OutboundMessage) -> bool:
    """It has arrived. False: somebody else had taken it over."""
    async with db.transaction() as tx:
        return await outbound.settle(tx, notice, "sent")


async def postpone(db: Database, notice: OutboundMessage, seconds: float, error: str) -> bool:
    """It is tried again after so many seconds, or given up when it was tried often enough. True: given up."""
    over = notice.attempts >= ATTEMPTS
    async with db.transaction() as tx:
        state = "dead" if over else "pending"
        return await outbound.settle(tx, notice, state, seconds=seconds, error=error) and over


async def mark_dead(db: Database, notice: OutboundMessage, error: str) -> None:
    """It will not be tried again, unless somebody has it replayed."""
    async with db.transaction() as tx:
        await outbound.settle(tx, notice, "dead", error=error)


def retry_delay(attempts: int, asked: float | None, chance: float) -> float:
    """Seconds until the next attempt: 5, 10, 20 … six hours, or as asked; ``chance`` in [0, 1) spreads a fifth."""
    doubled = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempts - 1, 30))
    spread = doubled * (0.8 + 0.4 * chance)
    return spread if asked is None else min(LONGEST_PAUSE, max(asked, spread))


async def forget(db: Database) -> int:
    """Drop what was told long ago. Returns how many."""
    async with db.transaction() as tx:
        return await outbound.forget(tx, KEPT_DAYS)
