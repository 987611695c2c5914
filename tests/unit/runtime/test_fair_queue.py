"""What waits for a slot: the agents take turns, and nothing waits twice."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from agent.database.wakeups import Wakeup
from agent.runtime.work_queue import FairQueue


def call(agent: str, number: int, *, first: bool = False) -> Wakeup:
    return Wakeup.call(UUID(int=number), agent, first=first)


def numbers(queue: FairQueue) -> Iterator[int]:
    """What the queue gives, in its order, until it is empty."""
    while wakeup := queue.pop():
        yield UUID(str(wakeup.key)).int


def test_a_flood_of_one_agent_holds_up_no_other() -> None:
    """Behind 300 calls of one agent, those of another have every other turn from the moment they come."""
    queue = FairQueue()
    for number in range(300):
        queue.put(call("flood", number))
    assert queue.pop() == call("flood", 0)
    for number in range(1000, 1003):
        queue.put(call("other", number))
    order = list(numbers(queue))
    assert order[:6] == [1, 1000, 2, 1001, 3, 1002]
    assert order[6:] == list(range(4, 300))


def test_what_somebody_waits_for_goes_first_within_its_agent() -> None:
    """A call that goes first overtakes those of its own agent, and costs another agent no turn."""
    queue = FairQueue()
    for number in (1, 2):
        queue.put(call("a", number))
    queue.put(call("b", 10))
    queue.put(call("a", 3, first=True))
    queue.put(call("a", 2, first=True))  # it waited already
    assert list(numbers(queue)) == [3, 10, 2, 1]


def test_what_waits_is_not_added_again() -> None:
    """However often something is woken, it waits once, in the place that it has."""
    queue = FairQueue()
    for number in (1, 2, 1):
        queue.put(call("a", number))
        queue.put(call("a", 3, first=True))
    queue.put(call("a", 3))
    assert len(queue) == 3
    assert list(numbers(queue)) == [3, 1, 2]


def test_what_waits_has_bounds_for_each_agent() -> None:
    """Beyond so much of one agent nothing is added for it; others have as much room."""
    queue = FairQueue(most=2)
    assert [queue.put(call("a", number)) for number in (1, 2, 3, 2)] == [True, True, False, True]
    assert queue.put(call("a", 2, first=True))
    assert queue.put(call("b", 4))
    assert list(numbers(queue)) == [2, 4, 1]
