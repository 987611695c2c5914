"""The decorator: a function that asks people before it runs."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any

from signoff.canonical import canonical_bytes, plain_json
from signoff.client import attempts, operations
from signoff.client.effects import CallFunction, Operation
from signoff.client.facts import FactsFunction
from signoff.client.reviews import ClaimedAction
from signoff.client.validated import check_read, form_of_call, validates
from signoff.durations import Duration
from signoff.errors import MalformedArguments, SignoffError

log = logging.getLogger("signoff.client")

TextOrFunction = str | Callable[..., str] | None


@dataclass(frozen=True)
class GuardedFunction:
    """`action` is the function's name in the checkpoints."""

    function: Callable[..., Any]
    action: str
    timeout: operations.WaitLimit
    key: TextOrFunction = None
    description: TextOrFunction = None
    context: Any = None
    requester: str | None = None
    lease: Duration | None = None
    facts: FactsFunction | None = None
    session: TextOrFunction = None

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operation[Any]:
        """Raises what `ask` and `claim` raise, MalformedArguments for unknown arguments, and the function's own errors;
        the last two are reported first. After anything else, such as a cancellation, people are asked what happened.

        The function gets what was judged: its arguments, a copy of those that have changed since, or a reviewer's edit.
        """
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = self._arguments(bound)
        decision = yield from operations.ask(
            self.action,
            arguments,
            description=_words(self.description, arguments),
            context=self.context(**_copy(arguments)) if callable(self.context) else self.context,
            timeout=self.timeout,
            key=_words(self.key, arguments),
            requester=self.requester,
            session=_words(self.session, arguments),
            facts=self.facts,
        )
        if decision.status == "not_required":
            _use(bound, arguments)
            return (yield CallFunction(lambda: self.function(*bound.args, **bound.kwargs)))
        claimed = yield from attempts.claim(
            decision,
            lease=self.lease,
            facts=self.facts,
            timeout=self.timeout,
            keep=self.key is not None,
        )
        try:
            self._check_edit(claimed, arguments)
        except MalformedArguments as error:
            yield from _report(claimed, time.monotonic(), error=error)
            raise
        _use(bound, arguments)
        for name, value in claimed.arguments.items():
            if not _is_same(arguments[name], value):
                bound.arguments[name] = value
        for name in arguments.keys() - claimed.arguments.keys():
            del bound.arguments[name]
        return (yield from self._run(claimed, bound))

    def _check_edit(self, claimed: ClaimedAction, arguments: Mapping[str, Any]) -> None:
        """Raises MalformedArguments."""
        if added := claimed.arguments.keys() - arguments.keys():
            words = f"a reviewer added it, and {self.action} takes no such argument; nothing was done"
            raise MalformedArguments(f"$.{min(added)}", words)
        check_read(self.function, claimed.arguments)

    def _run(self, claimed: ClaimedAction, bound: inspect.BoundArguments) -> Operation[Any]:
        began = time.monotonic()
        try:
            result = yield CallFunction(lambda: self.function(*bound.args, **bound.kwargs))
        except Exception as error:
            yield from _report(claimed, began, error=error)
            raise
        yield from _report(claimed, began, result=result)
        return result

    def _arguments(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        named = dict(bound.arguments)
        first = next(iter(named), None)
        if first in ("self", "cls"):
            del named[first]
        try:
            if validates(self.function):
                return form_of_call(self.function, named)
            copied: dict[str, Any] = _copy(named)
            canonical_bytes(copied)
        except MalformedArguments as error:
            raise MalformedArguments(
                error.path, f"{error.problem}, so nobody can be asked about it"
            ) from None
        return copied


def _use(bound: inspect.BoundArguments, judged: Mapping[str, Any]) -> None:
    for name, value in judged.items():
        if not _is_same(bound.arguments[name], value):
            bound.arguments[name] = value


def _is_same(value: Any, judged: Any) -> bool:
    try:
        return canonical_bytes(value) == canonical_bytes(judged)
    except MalformedArguments:
        return False


def _copy(value: Any) -> Any:
    """Nothing can change it between the question and the call. Types other than these become plain JSON."""
    kind = type(value)
    if kind is dict:
        return {name: _copy(part) for name, part in value.items()}
    if kind in (list, tuple):
        return kind(map(_copy, value))
    if kind in (str, int, float, bool, NoneType) or isinstance(value, Enum):
        return value
    return plain_json(value)


def _report(
    claimed: ClaimedAction, began: float, *, result: Any = None, error: Exception | None = None
) -> Operation[None]:
    """A failed report must not hide the function's outcome."""
    try:
        yield from attempts.report(claimed, result, error=error, seconds=time.monotonic() - began)
    except SignoffError as failed:
        log.error("could not report the outcome: %s (request %s)", failed, claimed.id)  # noqa: TRY400 - not our fault


def _words(given: TextOrFunction, arguments: Mapping[str, Any]) -> str | None:
    return given(**_copy(arguments)) if callable(given) else given
