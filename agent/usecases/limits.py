"""Limits over time: their use, and leave for a program to proceed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.judgement import Judgement
from agent.domain.limits import Limit, LimitState, Use
from agent.domain.pause import check_not_paused
from agent.domain.policy import check_epoch
from agent.store import audit, judgements, limits, pause
from agent.store import policy as policies
from agent.store.limits import SubjectUse, question_key

__all__ = ["allow_use", "by_subject", "question_key", "settle_ended", "states"]

BATCH = 1_000


async def states(db: Database, key: UUID, uses: Sequence[Use]) -> tuple[LimitState, ...]:
    """The limits without the key's own reservations."""
    return tuple(await db.read(limits.states, key, uses))


async def by_subject(db: Database, of: Sequence[Limit], *, most: int = 50) -> list[SubjectUse]:
    """Return who uses these limits, in their windows: most used first, at most ``most`` per limit."""
    return await db.read(limits.by_subject, {limit.name: limit.within for limit in of}, most)


async def allow_use(
    db: Database,
    principal: Principal,
    key: UUID,
    uses: Sequence[Use],
    detail: Mapping[str, object],
    judged: Judgement | None = None,
    *,
    agent: str,
) -> tuple[LimitState, ...]:
    """Record and count that a program may proceed without a person, if its limits have room.

    If not, nothing is written and the limits are returned. A key is one use and one evaluation while its windows
    last. Raises ``OutdatedPolicy`` and ``AgentPaused``.
    """
    async with db.transaction() as tx:
        check_epoch(judged.epoch if judged else 0, await policies.lock_epoch(tx))
        check_not_paused(await pause.active_pauses(tx), agent)
        room = await limits.lock(tx, key, uses)
        if not room.has_room(key, uses):
            return tuple(room.states(key, uses))
        new = room.uncounted(key, uses)
        limits.add_settled(tx, key, new)
        await audit.create_head(tx, principal.name)
        recorded = {**detail, "policy": judged.epoch if judged else 0}
        await audit.record(tx, principal.name, AuditKind.REVIEW_NOT_REQUIRED, principal.name, recorded)
        if new and judged is not None:
            judgements.insert(tx, judged, principal=principal.name)
    return ()


async def settle_ended(db: Database) -> int:
    """Settle the uses of ended calls, release those that never ran, and forget old ones; return how many."""
    settled = BATCH
    total = 0
    while settled == BATCH:
        async with db.transaction() as tx:
            settled = await limits.settle_ended(tx, BATCH)
        async with db.transaction() as tx:  # one each: two with the same sums must not wait for each other
            total += settled + await limits.forget_old(tx, BATCH)
    return total
