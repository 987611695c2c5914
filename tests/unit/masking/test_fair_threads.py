"""Threads for masking: people first, then each sender in its turn, whatever the others have sent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event

from slackbot.masking.fair_threads import FairThreads

PATIENCE = 30.0


class Work:
    """Pieces of work that last until they are let go, and who has begun."""

    def __init__(self) -> None:
        self.threads = FairThreads("test")
        self.begun: list[str] = []
        self._futures: list[Future[None]] = []

    def submit(self, name: str, sender: str | None, until: Event | None = None) -> Event:
        """Returns an event that is set once it has begun."""
        has_begun = Event()

        def work() -> None:
            self.begun.append(name)
            has_begun.set()
            if until is not None:
                until.wait(PATIENCE)

        self._futures.append(self.threads.submit(work, sender))
        return has_begun

    def finish(self) -> None:
        """Wait for all of it."""
        for each in self._futures:
            each.result(PATIENCE)


def test_one_senders_pile_delays_neither_people_nor_other_senders() -> None:
    """While a key's text is looked through people find a thread, and the next sender is the one with the least."""
    work, end = Work(), Event()
    assert work.submit("first", "key:flood", end).wait(PATIENCE)
    for _ in range(20):
        work.submit("flood", "key:flood")
    work.submit("card", "refunds")
    assert work.submit("click", None).wait(PATIENCE)
    assert work.begun == ["first", "click"]
    end.set()
    work.finish()
    assert work.begun[:3] == ["first", "click", "card"]


def test_people_may_use_both_threads_and_a_failure_ends_nothing() -> None:
    """Two people's long texts are looked through at the same time; work that fails fails for its own caller only."""
    work, end = Work(), Event()

    def fail() -> None:
        raise ValueError("broken")

    broken = work.threads.submit(fail, "key:flood")
    assert isinstance(broken.exception(PATIENCE), ValueError)
    assert all(begun.wait(PATIENCE) for begun in [work.submit("click", None, end) for _ in range(2)])
    end.set()
    work.submit("card", "key:flood")
    work.finish()
    assert work.begun == ["click", "click", "card"]


def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    """A caller who has given up costs no time, and those behind come next."""
    work, end = Work(), Event()
    assert work.submit("first", "key:flood", end).wait(PATIENCE)
    given_up: Callable[[], None] = lambda: work.begun.append("given up")  # noqa: E731
    assert work.threads.submit(given_up, "key:flood").cancel()
    work.submit("last", "key:flood")
    end.set()
    work.finish()
    assert work.begun == ["first", "last"]
