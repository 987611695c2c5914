"""Work of one kind: slots, the order of beginnings, what failed, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from agent.database.errors import DatabaseUnavailable
from agent.database.wakeups import Wakeup
from agent.runtime.work_queue import WorkQueue, give_back_slot
from signoff.errors import SignoffError


class Workshop:
    """A queue whose work waits to be released, item by item."""

    def __init__(self, slots: int) -> None:
        self.begun: list[int] = []
        self.hungry = 0
        self.failing: Exception | None = None
        self.queue = WorkQueue(self._work, slots, self._feed)
        self._gates: dict[int, asyncio.Future[None]] = {}

    async def _work(self, wakeup: Wakeup) -> None:
        number = cast("UUID", wakeup.key).int
        self.begun.append(number)
        if self.failing is not None:
            raise self.failing
        gate = self._gates[number] = asyncio.get_running_loop().create_future()
        await gate

    def _feed(self) -> None:
        self.hungry += 1

    async def write_down(self, wakeup: Wakeup) -> None:
        """Work that is done but for what it writes."""
        give_back_slot()
        await self._work(wakeup)

    async def end(self, number: int) -> None:
        """Let this one end, and what follows begin."""
        self._gates.pop(number).set_result(None)
        await settle()


Workshops = Callable[[int], Workshop]


@pytest.fixture
async def workshop() -> AsyncIterator[Workshops]:
    """Makes workshops with this many slots; work that is still running at the end is cancelled."""
    made: list[Workshop] = []

    def make(slots: int) -> Workshop:
        made.append(Workshop(slots))
        return made[-1]

    yield make
    for each in made:
        await each.queue.stop(0)


async def settle() -> None:
    """Let everything begin and end that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def call(number: int, agent: str = "a") -> Wakeup:
    return Wakeup.call(UUID(int=number), agent)


async def test_no_more_begins_than_there_are_slots(workshop: Workshops) -> None:
    """Two slots: the third call begins when one of the first two has ended, whichever it is."""
    shop = workshop(2)
    for number in (1, 2, 3):
        shop.queue.take(call(number))
    await settle()
    assert shop.begun == [1, 2]
    assert shop.queue.busy
    await shop.end(2)
    assert shop.begun == [1, 2, 3]


async def test_the_flood_of_an_agent_leaves_every_other_slot_to_another(workshop: Workshops) -> None:
    """One slot, 300 calls of one agent, then one of another: that one is the next to begin."""
    shop = workshop(1)
    for number in range(300):
        shop.queue.take(call(number, "flood"))
    shop.queue.take(call(1000, "other"))
    await settle()
    await shop.end(0)
    await shop.end(1)
    assert shop.begun == [0, 1, 1000]


async def test_what_nobody_waits_for_has_a_quarter_of_the_slots_and_goes_last(workshop: Workshops) -> None:
    """Eight slots and a flood of what goes last: two of it begin, and all other slots are free for calls of people."""
    shop = workshop(8)
    for number in range(20):
        shop.queue.take(Wakeup.call(UUID(int=number), "a", last=True))
    for number in range(100, 107):
        shop.queue.take(call(number))
    await settle()
    assert shop.begun == [0, 1, *range(100, 106)]
    await shop.end(0)
    assert shop.begun[-1] == 106
    await shop.end(1)
    await shop.end(106)
    assert shop.begun[-2:] == [2, 3]


async def test_what_nobody_waits_for_is_slowed_down_and_never_stopped(workshop: Workshops) -> None:
    """However many calls of people wait, every eighth that begins is one that nobody waits for, while there is any."""
    shop = workshop(1)
    for number in range(100):
        shop.queue.take(call(number))
    for number in (1000, 1001):
        shop.queue.take(Wakeup.call(UUID(int=number), "a", last=True))
    await settle()
    for _ in range(17):
        await shop.end(shop.begun[-1])
    assert shop.begun == [*range(8), 1000, *range(8, 15), 1001, 15]


async def test_what_is_at_work_is_looked_at_once_more(workshop: Workshops) -> None:
    """Woken twice while at work, a call is looked at once more when it ends, and never twice at a time."""
    shop = workshop(2)
    for _ in range(3):
        shop.queue.take(call(1))
        await settle()
    assert shop.begun == [1]
    await shop.end(1)
    assert shop.begun == [1, 1]
    await shop.end(1)
    assert shop.begun == [1, 1]


async def test_a_look_says_nothing_new_about_what_is_at_work(workshop: Workshops) -> None:
    """What a look finds while it is at work is not looked at again."""
    shop = workshop(2)
    shop.queue.take(call(1))
    await settle()
    shop.queue.found(call(1))
    await shop.end(1)
    assert shop.begun == [1]


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (SignoffError("away"), ["work.failed"]),  # the same cause is logged once a minute
        (KeyError("a mistake"), ["work.broken", "work.broken"]),
    ],
)
async def test_what_fails_rests(workshop: Workshops, error: Exception, logged: list[str]) -> None:
    """Looks leave out for a while what has failed; a wake-up has it tried at once, and its slot is free."""
    shop = workshop(1)
    shop.failing = error
    with capture_logs() as logs:
        shop.queue.take(call(1))
        await settle()
        shop.queue.found(call(1))
        await settle()
        assert shop.begun == [1]
        shop.queue.take(call(1))
        await settle()
    assert shop.begun == [1, 1]
    assert [line["action"] for line in logs] == logged


@pytest.fixture
async def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds each failed call is left out; the time passes at once."""
    seconds_each: list[float] = []

    def call_later(seconds: float, forget: Callable[[object], None], key: object) -> None:
        seconds_each.append(seconds)
        forget(key)

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    return seconds_each


async def test_rests_become_longer(workshop: Workshops, rests: list[float]) -> None:
    """With each failure in a row a call is left out for twice as long, at most a minute; success forgets them."""
    shop = workshop(1)
    shop.failing = SignoffError("away")
    for _ in range(7):
        shop.queue.found(call(1))
        await settle()
    assert rests == [2, 4, 8, 16, 32, 60, 60]
    shop.failing = None
    shop.queue.found(call(1))
    await settle()
    await shop.end(1)
    shop.failing = SignoffError("away")
    shop.queue.found(call(1))
    await settle()
    assert rests[7:] == [2]


async def test_work_begins_soon_after_the_database_is_back(workshop: Workshops, rests: list[float]) -> None:
    """However often the database has failed a call, the call is left out no longer than at first."""
    shop = workshop(1)
    shop.failing = DatabaseUnavailable("away")
    for _ in range(7):
        shop.queue.found(call(1))
        await settle()
    assert rests == [2] * 7


async def test_more_is_asked_for_while_slots_would_run_dry(workshop: Workshops) -> None:
    """As long as more waits than there are slots nobody is asked for more; then at every beginning and end."""
    shop = workshop(2)
    for number in range(5):
        shop.queue.take(call(number))
    await settle()
    asked = shop.hungry
    shop.queue.take(call(6))
    assert shop.hungry == asked
    for number in range(3):
        await shop.end(number)
    assert shop.hungry > asked


async def test_a_reserved_slot_is_taken(workshop: Workshops) -> None:
    """What is reserved is begun by nobody else; given back, the next call begins in it."""
    shop = workshop(1)
    assert shop.queue.reserve(3) == 1
    assert shop.queue.reserve(1) == 0
    shop.queue.take(call(1))
    await settle()
    assert shop.begun == []
    shop.queue.release(1)
    await settle()
    assert shop.begun == [1]
    assert shop.queue.reserve(1) == 0


async def test_what_begins_in_a_reserved_slot_is_at_work(workshop: Workshops) -> None:
    """A claimed call has its slot until it ends, and is not begun again by a look meanwhile."""
    shop = workshop(1)
    assert shop.queue.reserve(1) == 1
    shop.queue.run(call(1), shop._work(call(1)))
    shop.queue.found(call(1))
    shop.queue.take(call(2))
    await settle()
    assert shop.begun == [1]
    await shop.end(1)
    assert shop.begun == [1, 2]


async def test_what_is_only_written_down_leaves_its_slot_to_the_next(workshop: Workshops) -> None:
    """One slot: a call begins while the one before it is written down, but no third one beside the two."""
    shop = workshop(1)
    for number in (1, 2):
        assert shop.queue.reserve(1) == 1
        shop.queue.run(call(number), shop.write_down(call(number)))
        await settle()
    shop.queue.take(call(3))
    await settle()
    assert shop.begun == [1, 2]
    await shop.end(2)
    assert shop.begun == [1, 2, 3]


async def test_a_claim_under_way_is_carried_out_before_the_queue_stops(workshop: Workshops) -> None:
    """Told to stop between reservation and claim, the queue waits for the call and begins nothing else."""
    shop = workshop(2)
    assert shop.queue.reserve(1) == 1
    shop.queue.take(call(1))
    await settle()
    stopping = asyncio.create_task(shop.queue.stop(30))
    await settle()
    assert shop.queue.reserve(1) == 0
    shop.queue.take(call(2))
    shop.queue.run(call(3), shop._work(call(3)))
    await settle()
    assert shop.begun == [1, 3]
    await shop.end(1)
    assert not stopping.done()
    await shop.end(3)
    await stopping
    assert shop.begun == [1, 3]


async def test_what_does_not_end_in_time_is_cut_off(workshop: Workshops) -> None:
    """When the drain time is over, running work is cancelled; a slot that is never settled delays nothing."""
    shop = workshop(2)
    assert shop.queue.reserve(1) == 1
    shop.queue.take(call(1))
    await settle()
    await shop.queue.stop(0)
    assert not shop.queue._tasks
