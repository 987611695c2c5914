"""Waves: what waits together goes together, and fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from agent.database.errors import DatabaseUnavailable, OutcomeUnknown
from agent.usecases.waves import MOST, SKIPPED, Skipped, Wave

Failure = Callable[[Sequence[int]], Exception | None]


class Sender:
    """Doubles numbers in transactions that wait for a release, and records which members were together."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[int], bool]] = []
        self.locked: set[int] = set()
        self.refused: set[int] = set()
        self.failure: Failure = lambda _members: None
        self.begun = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.unlocked = asyncio.Event()
        self.abandoned: list[tuple[int, int]] = []
        self.wave: Wave[int, int] = Wave(self.send, key=lambda member: member % 100, abandon=self.abandon)

    async def send(self, members: Sequence[int], *, wait: bool) -> list[int | Exception | Skipped]:
        """One transaction."""
        self.sent.append((list(members), wait))
        self.begun.set()
        await self.free.wait()
        if wait and self.locked.intersection(members):
            await self.unlocked.wait()
        if (error := self.failure(members)) is not None:
            raise error
        return [SKIPPED if each in self.locked and not wait else self.result(each) for each in members]

    def result(self, member: int) -> int | Exception:
        """The outcome of a member."""
        return KeyError(member) if member in self.refused else 2 * member

    async def abandon(self, member: int, result: int) -> None:
        """The result of a member that was cancelled on its way."""
        self.abandoned.append((member, result))

    def join(self, *members: int) -> list[asyncio.Task[int]]:
        """Have these sent, each for itself."""
        return [asyncio.ensure_future(self.wave.join(each)) for each in members]

    async def hold(self, *members: int) -> list[asyncio.Task[int]]:
        """Have these sent, and stop the transaction on its way."""
        self.free.clear()
        self.begun.clear()
        joined = self.join(*members)
        await self.begun.wait()
        return joined


async def test_who_comes_alone_waits_for_nothing() -> None:
    """A member is sent at once when no transaction is in progress."""
    sender = Sender()
    assert await sender.wave.join(1) == 2
    assert await sender.wave.join(2) == 4
    assert sender.sent == [([1], False), ([2], False)]


async def test_who_comes_meanwhile_goes_into_the_next_wave() -> None:
    """Members that join during a transaction are sent together, in order, and at most 32 in one."""
    sender = Sender()
    first = await sender.hold(0)
    rest = sender.join(*range(1, MOST + 3))
    await asyncio.sleep(0)
    sender.free.set()
    assert await asyncio.gather(*first, *rest) == [2 * each for each in range(MOST + 3)]
    assert [members for members, _ in sender.sent] == [
        [0],
        list(range(1, MOST + 1)),
        [MOST + 1, MOST + 2],
    ]


async def test_a_poisonous_member_fails_alone() -> None:
    """When a transaction fails, its members are repeated one by one, and only those that fail again get the error."""
    sender = Sender()
    sender.failure = lambda members: ValueError("poison") if 2 in members else None
    results = await asyncio.gather(*sender.join(1, 2, 3), return_exceptions=True)
    assert [results[0], results[2]] == [2, 6]
    assert isinstance(results[1], ValueError)
    assert [members for members, _ in sender.sent] == [[1, 2, 3], [1], [2], [3]]
    again = await asyncio.gather(*sender.join(1, 2, 3), return_exceptions=True)
    assert isinstance(again[1], ValueError)
    assert sorted(members for members, _ in sender.sent[4:]) == [[1, 3], [2]]
    sender.failure = lambda _members: None
    assert await asyncio.gather(*sender.join(2)) == [4]
    assert await asyncio.gather(*sender.join(1, 2)) == [2, 4]
    assert sender.sent[-1] == ([1, 2], False)


async def test_members_that_share_a_row_go_one_after_the_other() -> None:
    """What writes the same rows is in different waves, in the order in which it came; others pass it."""
    sender = Sender()
    assert await asyncio.gather(*sender.join(1, 101, 2, 201)) == [2, 202, 4, 402]
    assert [members for members, _ in sender.sent] == [[1, 2], [101], [201]]


async def test_locked_rows_hold_nobody_up() -> None:
    """A member that is skipped goes alone and waits, while others pass it."""
    sender = Sender()
    sender.locked = {2}
    one, two, three = sender.join(1, 2, 3)
    assert [await one, await three] == [2, 6]
    assert await sender.wave.join(4) == 8
    assert not two.done()
    sender.unlocked.set()
    assert await two == 4
    assert ([2], True) in sender.sent


@pytest.mark.parametrize("error", [DatabaseUnavailable, OutcomeUnknown])
async def test_a_database_that_is_away_is_everybodys_error(error: type[Exception]) -> None:
    """Nobody is repeated when the database cannot be reached or a COMMIT is not answered; each decides for itself."""
    sender = Sender()
    sender.failure = lambda _members: error("away")
    results = await asyncio.gather(*sender.join(1, 2), return_exceptions=True)
    assert [type(each) for each in results] == [error, error]
    assert len(sender.sent) == 1


async def test_an_exception_that_is_a_result_is_raised_to_its_member() -> None:
    """The transaction stands: the others have their results, nothing is repeated, and nobody goes alone later."""
    sender = Sender()
    sender.refused = {2}
    for _ in range(2):
        [zero] = await sender.hold(0)
        members = sender.join(1, 2, 3)
        sender.free.set()
        first, refused, third = members
        assert [await each for each in (zero, first, third)] == [0, 2, 6]
        with pytest.raises(KeyError):
            await refused
    assert sender.sent == [([0], False), ([1, 2, 3], False)] * 2


async def test_a_cancelled_member_hurts_no_other() -> None:
    """Cancelled before its wave, a member is not sent; during it, its result is looked after, and others get theirs."""
    sender = Sender()
    (first,) = await sender.hold(1)
    second, third = sender.join(2, 3)
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await asyncio.sleep(0)
    sender.free.set()
    assert await third == 6
    assert first.cancelled()
    assert [members for members, _ in sender.sent] == [[1], [3]]
    await sender.wave.finish()
    assert sender.abandoned == [(1, 2)]


async def test_finish_waits_for_everything_under_way() -> None:
    """A wave is finished when those that wait for a lock have gone, too."""
    sender = Sender()
    sender.locked = {1}
    (one,) = sender.join(1)
    finished = asyncio.ensure_future(sender.wave.finish())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not finished.done()
    sender.unlocked.set()
    await finished
    assert await one == 2


async def test_a_cancelled_wave_leaves_nobody_waiting() -> None:
    """When the loop ends the wave's task, its members and those behind them end, too."""
    sender = Sender()
    (first,) = await sender.hold(1)
    (second,) = sender.join(2)
    await asyncio.sleep(0)
    for task in sender.wave._tasks:
        task.cancel()
    for each in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await each


async def test_a_transaction_that_takes_long_is_passed() -> None:
    """With patience, the next members go beside a transaction that is stuck, and what comes then waits for theirs."""
    sender = Sender()
    sender.wave = Wave(sender.send, key=lambda member: member, patience=0.01)
    [stuck] = await sender.hold(1)
    sender.begun.clear()
    [passing] = sender.join(2)
    await sender.begun.wait()
    assert sender.sent == [([1], False), ([2], False)]
    sender.free.set()
    assert [await stuck, await passing] == [2, 4]
    assert await asyncio.gather(*sender.join(3, 4)) == [6, 8]
    await sender.wave.finish()
    assert sender.sent[2:] == [([3, 4], False)]


async def test_a_passed_transaction_sends_nothing_more() -> None:
    """What waits when a transaction that was passed ends is sent by the one that passed it, and only once."""
    sender = Sender()
    sender.wave = Wave(sender.send, key=lambda member: member, patience=0.01)
    first = await sender.hold(1)
    sender.begun.clear()
    second = sender.join(2)
    await sender.begun.wait()
    third = sender.join(3)
    sender.free.set()
    assert await asyncio.gather(*first, *second, *third) == [2, 4, 6]
    assert [members for members, _ in sender.sent] == [[1], [2], [3]]


async def test_nobody_waits_when_a_transaction_is_passed() -> None:
    """A transaction that is stuck delays no member that comes later."""
    sender = Sender()
    sender.wave = Wave(sender.send, key=lambda member: member, patience=0.0)
    [stuck] = await sender.hold(1)
    await asyncio.sleep(0.01)
    sender.begun.clear()
    [later] = sender.join(2)
    await sender.begun.wait()
    sender.free.set()
    assert [await stuck, await later] == [2, 4]


async def test_no_more_than_two_transactions_are_passed() -> None:
    """Behind the third transaction that is stuck, members wait: the database has connections for others, too."""
    sender = Sender()
    sender.wave = Wave(sender.send, key=lambda member: member, patience=0.0)
    stuck = await sender.hold(1)
    for number in (2, 3, 4):
        await asyncio.sleep(0.01)
        stuck += sender.join(number)
    await asyncio.sleep(0.01)
    assert [members for members, _ in sender.sent] == [[1], [2], [3]]
    sender.free.set()
    assert await asyncio.gather(*stuck) == [2, 4, 6, 8]
