"""Bounds on how many calls of a tool or an agent run at the same time."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import UUID

import pytest

from agent.database.wakeups import Wakeup
from agent.domain.errors import NoRoom
from agent.runtime.agents import Agent
from agent.runtime.concurrency import Concurrency, limits_of
from agent.runtime.tool import tool
from agent.store.concurrency import ConcurrencyLimit

TWO, ONE = ConcurrencyLimit("a", "two", 2, False), ConcurrencyLimit("a", "one", 1, False)
AGENT = ConcurrencyLimit("a", None, 1, False)
EVERYWHERE = ConcurrencyLimit("a", "everywhere", 1, True)


def call(number: int) -> Wakeup:
    return Wakeup.call(UUID(int=number), "a")


def counted(woken: list[Wakeup]) -> Concurrency:
    return Concurrency(woken.extend, lambda: None)


def test_no_more_run_than_allowed() -> None:
    """With room for two a third call is refused; the first to end wakes it, and then it may run."""
    woken: list[Wakeup] = []
    bounded = counted(woken)
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(bounded.running(call(1), [TWO]))
        second.enter_context(bounded.running(call(2), [TWO]))
        with pytest.raises(NoRoom), bounded.running(call(3), [TWO]):
            pass
        assert woken == []
        first.close()
        assert woken == [call(3)]
        with bounded.running(call(3), [TWO]):
            pass


def test_those_who_wait_are_woken_in_their_order() -> None:
    """Each end wakes the call that has waited longest; one that runs by now waits no more."""
    woken: list[Wakeup] = []
    bounded = counted(woken)
    with bounded.running(call(1), [ONE]):
        for number in (2, 3, 2):
            with pytest.raises(NoRoom), bounded.running(call(number), [ONE]):
                pass
    with bounded.running(call(3), [ONE]):
        pass
    assert woken == [call(2)]


def test_what_is_not_bounded_is_not_counted() -> None:
    """Without a limit any number runs; a limit of the agent bounds the calls of all its tools."""
    bounded = counted([])
    with ExitStack() as running:
        running.enter_context(bounded.running(call(1), [AGENT]))
        running.enter_context(bounded.running(call(2), []))
        with pytest.raises(NoRoom):
            running.enter_context(bounded.running(call(3), [TWO, AGENT]))


def test_a_call_that_found_no_room_elsewhere_wakes_nobody() -> None:
    """It waits until something ends or is looked for; waking others in its stead would never come to rest."""
    woken: list[Wakeup] = []
    bounded = counted(woken)
    for number in (1, 2):
        with pytest.raises(NoRoom), bounded.running(call(number), [EVERYWHERE]):
            raise NoRoom("claimed elsewhere")
    assert woken == []
    assert bounded.waits(call(1).key)
    bounded.wake_waiting()
    assert woken == [call(1)]
    assert not bounded.waits(call(1).key)


def test_other_processes_hear_of_each_end() -> None:
    """The end of a call that is bounded across processes is announced, and of no other."""
    announced: list[None] = []
    bounded = Concurrency(lambda _: None, lambda: announced.append(None))
    with bounded.running(call(1), [ONE]):
        pass
    assert announced == []
    with bounded.running(call(1), [ONE, EVERYWHERE]):
        pass
    with pytest.raises(KeyError), bounded.running(call(1), [EVERYWHERE]):
        raise KeyError
    assert announced == [None, None]


def test_a_look_wakes_as_many_as_there_is_room_for() -> None:
    """A call that was woken and did not run (its run was cancelled) keeps nobody else waiting."""
    woken: list[Wakeup] = []
    bounded = counted(woken)
    with bounded.running(call(1), [ONE]):
        for number in (2, 3):
            with pytest.raises(NoRoom), bounded.running(call(number), [ONE]):
                pass
        bounded.wake_waiting()
        assert woken == []
    assert woken == [call(2)]
    bounded.wake_waiting()
    assert woken == [call(2), call(3)]


def test_what_bounds_a_call() -> None:
    """The tool's own limit and that of its agent, each as far as it reaches."""
    bounded = tool(name="ours", concurrency=2, across_processes=True)(lambda: None)
    free = tool(name="free")(lambda: None)
    agent = Agent("a", "Instructions.", [bounded, free], concurrency=5)
    assert limits_of("a", agent, bounded) == [
        ConcurrencyLimit("a", "ours", 2, True),
        ConcurrencyLimit("a", None, 5, False),
    ]
    assert limits_of("a", agent, free) == [ConcurrencyLimit("a", None, 5, False)]
    assert limits_of("a", None, free) == []


def test_a_bound_is_at_least_one() -> None:
    """A tool or an agent of which nothing could ever run is refused, and a reach without a bound."""
    with pytest.raises(ValueError, match="concurrency"):
        Agent("a", "Instructions.", concurrency=0)
    with pytest.raises(ValueError, match="concurrency"):
        tool(name="nothing", concurrency=0)(lambda: None)
    with pytest.raises(ValueError, match="across_processes"):
        Agent("a", "Instructions.", across_processes=True)
    with pytest.raises(ValueError, match="across_processes"):
        tool(name="nothing", across_processes=True)(lambda: None)
