"""Threads for masking: people first, then each sender in its turn, whatever the others have sent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event

from slackbot.masking.fair_threads import CARDS, FairThreads

PATIENCE = 30.0


class Work:
    """Work that lasts until it is released, and a record of who has begun."""

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
    """While a key's text is looked through people and cards find a thread, and the next sender is who had the least."""
    work, end = Work(), Event()
    assert work.submit("first", "key:flood", end).wait(PATIENCE)
    for _ in range(20):
        work.submit("flood", "key:flood")
    work.submit("other", "key:other")
    assert work.submit("click", None).wait(PATIENCE)
    assert work.submit("card", CARDS).wait(PATIENCE)
    assert work.begun == ["first", "click", "card"]
    end.set()
    work.finish()
    assert work.begun[:4] == ["first", "click", "card", "other"]


def test_large_cards_leave_a_thread_for_people() -> None:
    """While a card and a key's text are looked through, a click finds a thread; the next card waits for the first."""
    work, end = Work(), Event()
    assert work.submit("card", CARDS, end).wait(PATIENCE)
    assert work.submit("list", "key:flood", end).wait(PATIENCE)
    work.submit("next card", CARDS)
    assert work.submit("click", None).wait(PATIENCE)
    assert work.begun == ["card", "list", "click"]
    end.set()
    work.finish()


def test_people_may_use_all_threads_and_a_failure_ends_nothing() -> None:
    """Three people's long texts are looked through at the same time; work that fails fails for its own caller only."""
    work, end = Work(), Event()

    def fail() -> None:
        raise ValueError("broken")

    broken = work.threads.submit(fail, "key:flood")
    assert isinstance(broken.exception(PATIENCE), ValueError)
    assert all(begun.wait(PATIENCE) for begun in [work.submit("click", None, end) for _ in range(3)])
    end.set()
    work.submit("card", "key:flood")
    work.finish()
    assert work.begun == ["click", "click", "click", "card"]


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
