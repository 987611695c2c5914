"""A waiting DBOS workflow's steps, for functions and coroutines alike."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from dbos import DBOS, StepOptions

from signoff.errors import ApiError, Unreachable

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds that one attempt of a step tries to reach Signoff."""

ATTEMPTS = 60
"""Attempts until a workflow fails: enough for an outage of about an hour."""


@dataclass(frozen=True)
class WorkflowStep:
    """Recorded; ``may_repeat`` if Signoff did not answer."""

    name: str
    function: Callable[[], Any]
    may_repeat: bool = True


@dataclass(frozen=True)
class WorkflowMessage:
    """A wait of a DBOS workflow for a message on this topic, for at most so many seconds."""

    topic: str
    seconds: float


@dataclass(frozen=True)
class WorkflowEvent:
    """A value that a DBOS workflow publishes under this name; None takes an earlier value's place."""

    name: str
    value: str | None


Wait = Generator[WorkflowStep | WorkflowMessage | WorkflowEvent, Any, T]


def one_step(name: str, function: Callable[[], T]) -> Wait[T]:
    """Outside a workflow, a plain call."""
    done: T = yield WorkflowStep(name, function)
    return done


def blocking(wait: Wait[T]) -> T:
    """Run a wait in a workflow that is a plain function, each step by DBOS, and return its result."""
    came: Any = None
    while True:
        try:
            what = wait.send(came)
        except StopIteration as end:
            result: T = end.value
            return result
        came = None
        if isinstance(what, WorkflowStep):
            came = DBOS.run_step(_options(what), what.function)
        elif isinstance(what, WorkflowMessage):
            came = DBOS.recv(what.topic, timeout_seconds=what.seconds)
        else:
            DBOS.set_event(what.name, what.value)


async def awaited(wait: Wait[T]) -> T:
    """Blocking steps run in a thread."""
    came: Any = None
    while True:
        try:
            what = wait.send(came)
        except StopIteration as end:
            result: T = end.value
            return result
        came = None
        if isinstance(what, WorkflowStep):
            came = await DBOS.run_step_async(_options(what), what.function)
        elif isinstance(what, WorkflowMessage):
            came = await DBOS.recv_async(what.topic, timeout_seconds=what.seconds)
        else:
            await DBOS.set_event_async(what.name, what.value)


def _options(step: WorkflowStep) -> StepOptions:
    repeated: StepOptions = {
        "name": step.name,
        "retries_allowed": step.may_repeat,
        "interval_seconds": 5.0,
        "backoff_rate": 1.0,
        "max_attempts": ATTEMPTS,
        "should_retry": _is_away,
    }
    return repeated if step.may_repeat else {"name": step.name}


def _is_away(error: BaseException) -> bool:
    return isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status >= 500)
