"""Bounds on how many calls of a tool or an agent run at the same time."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import UUID

import pytest

from agent.database.wakeups import Wakeup
from agent.runtime.agents import Agent
from agent.runtime.concurrency import Concurrency, NoRoom
from agent.runtime.tool import tool


def call(number: int) -> Wakeup:
    return Wakeup.call(UUID(int=number), "a")


def test_no_more_run_than_allowed() -> None:
    """With room for two a third call is refused; the first to end wakes it, and then it may run."""
    woken: list[Wakeup] = []
    bounded = Concurrency(woken.extend)
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(bounded.running(call(1), {"tool": 2}))
        second.enter_context(bounded.running(call(2), {"tool": 2}))
        with pytest.raises(NoRoom), bounded.running(call(3), {"tool": 2}):
            pass
        assert woken == []
        first.close()
        assert woken == [call(3)]
        with bounded.running(call(3), {"tool": 2}):
            pass


def test_those_who_wait_are_woken_in_their_order() -> None:
    """Each end wakes the call that has waited longest; one that runs by now waits no more."""
    woken: list[Wakeup] = []
    bounded = Concurrency(woken.extend)
    with bounded.running(call(1), {"tool": 1}):
        for number in (2, 3, 2):
            with pytest.raises(NoRoom), bounded.running(call(number), {"tool": 1}):
                pass
    with bounded.running(call(3), {"tool": 1}):
        pass
    assert woken == [call(2)]


def test_what_is_not_bounded_is_not_counted() -> None:
    """Without a limit any number runs; a limit of the agent bounds the calls of all its tools."""
    bounded = Concurrency(lambda _: None)
    with ExitStack() as running:
        running.enter_context(bounded.running(call(1), {"tool x": None, "agent": 1}))
        running.enter_context(bounded.running(call(2), {"tool y": None}))
        with pytest.raises(NoRoom):
            running.enter_context(bounded.running(call(3), {"tool y": None, "agent": 1}))


def test_a_bound_is_at_least_one() -> None:
    """A tool or an agent of which nothing could ever run is refused."""
    with pytest.raises(ValueError, match="concurrency"):
        Agent("a", "Instructions.", concurrency=0)
    with pytest.raises(ValueError, match="concurrency"):
        tool(name="nothing", concurrency=0)(lambda: None)
