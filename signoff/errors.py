"""Errors that programs and the service share.

SignoffError
├── MalformedArguments
├── CollaborationError
│   └── ApprovalExpired (also a TimeoutError)
├── FactsFailed
├── Conflict
├── ApiError
│   └── AlreadyClaimed (also a Conflict)
└── Unreachable (also a ConnectionError)

The service's own errors (`agent.domain.errors`) have the same root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from signoff.formats import after_colon


class SignoffError(Exception):
    """Base class of all Signoff errors. Picklable."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


_VERBS = ("cannot ", "contains ", "has ", "is ", "must ")


class MalformedArguments(SignoffError):
    """A value has no canonical JSON form: `path` is where (`$.items[2].price`), `problem` a phrase that follows it."""

    def __init__(self, path: str, problem: str) -> None:
        whole = f"it {problem}" if problem.startswith(_VERBS) else problem
        super().__init__(whole if path == "$" else f"{path}: {problem}")
        self.path = path
        self.problem = problem


Cause = Literal["rejected", "expired", "withdrawn"]


class CollaborationError(SignoffError):
    """The run stopped because a person said no or nobody answered in time.

    With the cause `expired` it is an `ApprovalExpired`.
    """

    def __new__(cls, cause: str = "", *_: object, **__: object) -> Self:
        # As OSError makes a FileNotFoundError: whoever says the cause need not know the class.
        kind: Any = ApprovalExpired if cls is CollaborationError and cause == "expired" else cls
        error: Self = super(CollaborationError, kind).__new__(kind)
        return error

    def __init__(
        self,
        cause: Cause,
        *,
        request_id: str,
        reason: str | None = None,
        reviewer: str | None = None,
    ) -> None:
        by = f" by {reviewer}" if reviewer else ""
        about = f" (request {request_id})" if request_id else ""
        why = after_colon(reason) if reason else ""
        words = f"{cause}{by}{about}{why}" if "\n" in why else f"{cause}{by}{why}{about}"
        self.args = (words,)  # OSError would not take them from `__init__`
        self.cause = cause
        self.request_id = request_id
        self.reason = reason
        self.reviewer = reviewer


class ApprovalExpired(CollaborationError, TimeoutError):
    """Nobody decided in time. This is no rejection: `reviewer` and `reason` are None."""


class FactsFailed(SignoffError):
    """The program's facts could not be looked up, so the action did not start. `__cause__` has the reason."""


class Conflict(SignoffError):
    """The same id was used for other content, or the question is already settled otherwise."""


class ApiError(SignoffError):
    """The service refused: `status` and `kind` are those of RFC 9457.

    401: invalid key. 403: the key lacks the right, or policy denies the action. 404: no such request.
    """

    def __init__(self, status: int, kind: str, words: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.kind = kind
        self.problem = dict(problem or {})


class AlreadyClaimed(ApiError, Conflict):
    """The action was already started, here or by an earlier process, and never starts twice."""


class Unreachable(SignoffError, ConnectionError):
    """The service did not answer in time; the outcome of the call is unknown."""


def _again(kind: type[SignoffError], args: tuple[Any, ...], state: dict[str, Any]) -> SignoffError:
    """Unpickle an error without its constructor: the message is already formatted."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UnusableForm(SignoffError):
    """People cannot be asked for such an answer; the text says what to change."""
