"""Progress of `make stress`: the current promise, its rounds, and the time left.

A plugin for pytest (`-p tests.stress.progress`). It prints whole lines, which suit a log as well as a terminal, ends a
test that hangs, and closes with a table.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Any

import pytest

from tests.stress import rounds
from tests.stress.budget import SECONDS, SIZE, check_budgets, limit
from tests.stress.rounds import Case

PERIOD = 10.0
"""Seconds between two lines about one test."""
GRACE = 30.0
"""Seconds from the cancellation of a hanging test to the interruption of its thread."""

_OUT = os.fdopen(os.dup(1), "w", buffering=1)  # taken before pytest captures output


class Hung(BaseException):
    """A BaseException: Hypothesis would examine any other as a failure."""


@dataclass
class Progress:
    """`rounds.present` is the current case."""

    to_come: list[str]
    over: list[Case] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def case(self, test: str) -> Iterator[Case]:
        self.to_come.remove(test)
        rounds.present = case = Case(test, _expected(test))
        self.say("begins")
        try:
            yield case
        finally:
            case.seconds = time.monotonic() - case.began
            if case.rounds == 1:
                case.done = 1
            self.say(f"{'FAILED' if case.failed else 'kept'} after {case.seconds:.0f} s")
            rounds.present = None
            self.over.append(case)

    def left(self) -> float:
        """Seconds until the end, at the pace of this machine so far."""
        case = rounds.present
        present = (case.expected, case.expected * case.share) if case else (0.0, 0.0)
        worked = sum(each.expected for each in self.over) + present[1]
        ahead = sum(map(_expected, self.to_come)) + present[0] - present[1]
        pace = (time.monotonic() - self.began + 60) / (worked + 60)  # as planned, until a pace is known
        return pace * ahead

    def say(self, what: str = "") -> None:
        if (case := rounds.present) is None:
            return
        so_far = timedelta(seconds=int(time.monotonic() - self.began))
        number, of = len(self.over) + 1, len(self.over) + 1 + len(self.to_come)
        count = f"{case.done} of {case.rounds} rounds" if case.rounds > 1 else ""
        failed = f"{case.failed} failed" if case.failed else ""
        state = ", ".join(filter(None, (what, count, failed))) or "at work"
        _print(f"[{so_far}] {number}/{of} {case.words}: {state}; about {_minutes(self.left())} left")

    def tick(self) -> None:
        while True:
            time.sleep(PERIOD)
            self.say()


_progress = Progress([])


def _print(line: str) -> None:
    print(line, file=_OUT)


def _minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)} min"


def _expected(test: str) -> float:
    return SECONDS[test] * SIZE


def _name(item: pytest.Item) -> str:
    return item.name.partition("[")[0]


# --- what pytest calls ---------------------------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    names = [_name(item) for item in items]
    check_budgets(names)
    _progress.to_come.extend(names)
    for item, name in zip(items, names, strict=True):
        if inspect.iscoroutinefunction(item.obj):
            item.obj = _bounded(item.obj, limit(name))
    if items and not config.option.collectonly:
        _print(f"{len(set(names))} promises, about {_minutes(_progress.left())} on two cores")
        threading.Thread(target=_progress.tick, daemon=True).start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The hypothesis seed also seeds `random`."""
    random.seed(f"{item.config.getoption('--hypothesis-seed')} {item.nodeid}")
    name = _name(item)
    with _progress.case(name), _interrupted(limit(name) + GRACE):
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and rounds.present:
        rounds.present.failed = max(rounds.present.failed, 1)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str]:
    """No dots beside our own lines."""
    if report.when == "call" or report.skipped:
        return report.outcome, "", "" if report.passed else report.outcome.upper()
    return ("error", "", "ERROR") if report.failed else ("", "", "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    cases: dict[str, list[Case]] = {}
    for case in _progress.over:
        cases.setdefault(case.words, []).append(case)
    wide = max(map(len, cases), default=0)
    terminalreporter.section("promises")
    terminalreporter.write_line(f"{'promise':{wide}}  rounds  failures  seconds")
    for words, those in cases.items():
        count, failed = sum(case.done for case in those), sum(case.failed for case in those)
        seconds = sum(case.seconds for case in those)
        terminalreporter.write_line(f"{words:{wide}}  {count:6}  {failed:8}  {seconds:7.0f}")


# --- bounds --------------------------------------------------------------------------------------------------


def _hung(seconds: float) -> Hung:
    case = rounds.present
    count = f"{case.done} of {case.rounds} rounds are done" if case else "nothing is known of it"
    return Hung(f"no end after {seconds:.0f} s: {count}")


def _bounded(
    test: Callable[..., Coroutine[Any, Any, None]], seconds: float
) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def bounded(*args: Any, **named: Any) -> None:
        bound = asyncio.timeout(seconds)
        try:
            async with bound:
                await test(*args, **named)
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise _hung(seconds) from error

    return bounded


@contextmanager
def _interrupted(seconds: float) -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _hung(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
