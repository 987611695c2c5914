"""What a process knows of limits without room: a hint, and no more."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from agent.domain.limits import Limit, LimitState, Use
from agent.runtime.concurrency import MAX_KNOWN, FullLimits

MOST = Limit("refunds", "refund", "args.amount", "requester", timedelta(days=1), Decimal(100))


def use(amount: int | None, subject: str = "requester:T1/U0ADA") -> Use:
    return Use(MOST, subject, None if amount is None else Decimal(amount))


def state(amount: int, used: int) -> LimitState:
    return LimitState(use(amount), Decimal(used), Decimal(0))


def test_a_smaller_call_still_goes_to_its_claim() -> None:
    """Only what takes as much as the least that was refused is known to find no room, for that subject alone."""
    full = FullLimits()
    for refused in (80, 50, 70):
        full.add([use(refused)])
    assert [full.may_have_room([use(amount)]) for amount in (49, 50, 90)] == [True, False, False]
    assert full.may_have_room([use(90, "requester:T1/U0BOB")])
    assert not full.may_have_room([use(1), use(90)])


def test_what_cannot_be_counted_is_added_up_first() -> None:
    """It never has room, and says nothing about others."""
    full = FullLimits()
    full.add([use(None)])
    assert not full.may_have_room([use(None)])
    assert full.may_have_room([use(1000)])


def test_room_that_is_found_again_is_known() -> None:
    """A limit that has room for what was refused is full no more; room for less says nothing about more."""
    full = FullLimits()
    full.update([state(50, used=60)])
    full.update([state(40, used=60)])
    assert not full.may_have_room([use(50)])
    full.update([state(50, used=50)])
    assert full.may_have_room([use(50)])


def test_a_process_keeps_few_of_them() -> None:
    """Beyond 1,000 it forgets, and the claims find out again."""
    full = FullLimits()
    for n in range(MAX_KNOWN + 1):
        full.add([use(1, f"requester:T1/U{n}")])
    assert full.may_have_room([use(1, "requester:T1/U0")])
    assert not full.may_have_room([use(1, f"requester:T1/U{MAX_KNOWN}")])
    assert len(full._refused) <= MAX_KNOWN
