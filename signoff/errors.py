"""The errors that programs and the service share.

SignoffError
├── MalformedArguments      a value has no canonical JSON form
├── CollaborationError      a person's decision (or its absence) stopped the run, or a parent of it
├── FactsFailed             the program could not look up its facts, so nothing was begun
├── Conflict                the same id with other content, or a fact that is already settled otherwise
├── ApiError                the service refuses a call over HTTP
│   └── AlreadyClaimed      the action has been started already; also a Conflict
└── Unreachable             the service did not answer in time; also a ConnectionError

The service's own errors (`agent.domain.errors`) have the same root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


class SignoffError(Exception):
    """The root of the tree: catch this to catch all of ours and nothing else. It can be pickled, as it is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


class MalformedArguments(SignoffError):
    """A value without canonical JSON form: `path` is where (`$.items[2].price`), `problem` a phrase that follows it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class CollaborationError(SignoffError):
    """The run ends because a person said no, or because nobody answered in time.

    Its text starts with the cause. Expired is not rejected: `reviewer` and `reason` are None for it.
    """

    def __init__(
        self,
        cause: Literal["rejected", "expired", "withdrawn"],
        *,
        request_id: str,
        reason: str | None = None,
        reviewer: str | None = None,
    ) -> None:
        by = f" by {reviewer}" if reviewer else ""
        why = f": {reason}" if reason else ""
        super().__init__(f"{cause}{by}{why} (request {request_id})")
        self.cause = cause
        self.request_id = request_id
        self.reason = reason
        self.reviewer = reviewer


class FactsFailed(SignoffError):
    """The program's own facts about an action could not be looked up, so it was not begun. `__cause__` says why."""


class Conflict(SignoffError):
    """The same id was used for other content, or the question has been settled otherwise."""


class ApiError(SignoffError):
    """The service refuses: `status` and `kind` say what (RFC 9457), the text says why.

    401: the key is not valid. 403: it may not, or policy denies the action. 404: there is no such request.
    """

    def __init__(self, status: int, kind: str, words: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.kind = kind
        self.problem = dict(problem or {})


class AlreadyClaimed(ApiError, Conflict):
    """Somebody has begun with this already, or did so in an earlier life: it is not begun twice."""


class Unreachable(SignoffError, ConnectionError):
    """The service did not answer in time; nothing is known of what became of the call."""


def _again(kind: type[SignoffError], args: tuple[Any, ...], state: dict[str, Any]) -> SignoffError:
    """An error out of its pickle; it was worded before, so that its own constructor has nothing to add."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error
