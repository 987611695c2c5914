"""Notices are delivered at least once: one taken without an outcome is sent again."""

from __future__ import annotations

from agent.database.pools import Database
from agent.domain.outbound import OutboundMessage
from agent.store import outbound
from signoff.backoff import Backoff

LEASE = 60.0
"""Seconds until another sender may take a notice."""

PAUSES = Backoff(first=5.0, longest=6 * 3600.0, spread=(0.8, 1.2))
ATTEMPTS = 16
"""About a day, with pauses that double up to the longest."""


async def lease_due(db: Database, target: str, limit: int) -> list[OutboundMessage]:
    """Take up to ``limit`` due notices for a webhook (its id) or for e-mail, for one minute."""
    async with db.transaction() as tx:
        return await outbound.lease_due(tx, target, limit, LEASE)


async def mark_sent(db: Database, notice: OutboundMessage) -> bool:
    """False: another sender had taken over."""
    async with db.transaction() as tx:
        return await outbound.settle(tx, notice, "sent")


async def postpone(db: Database, notice: OutboundMessage, seconds: float, error: str) -> bool:
    """True: given up after too many attempts."""
    over = notice.attempts >= ATTEMPTS
    async with db.transaction() as tx:
        state = "dead" if over else "pending"
        return await outbound.settle(tx, notice, state, seconds=seconds, error=error) and over


async def mark_dead(db: Database, notice: OutboundMessage, error: str) -> None:
    """Stop retrying until somebody replays the notice."""
    async with db.transaction() as tx:
        await outbound.settle(tx, notice, "dead", error=error)


def retry_delay(attempts: int, asked: float | None, chance: float) -> float:
    """Seconds: 5, 10, 20 … six hours, a fifth more or less by ``chance``; or as asked, six hours at most."""
    pause = PAUSES.after(attempts, chance, asked)
    return pause if asked is None else min(PAUSES.longest, pause)
