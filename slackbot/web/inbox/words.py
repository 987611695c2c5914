"""Stored facts as text for a page. Templates do the escaping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from agent.domain.request import EXECUTED, ApprovalState, ExecutionStatus, RequestStatus
from agent.domain.run import CallOutcome, Hold, RunStatus
from agent.domain.verdicts import REFUSALS
from signoff import formats
from signoff.formats import enumerated
from signoff.values import Person
from signoff.visible_text import visible
from slackbot.cards import Names, inert, status_words
from slackbot.cards.durations import roughly

_MINUTE = 60


def moment(at: datetime) -> Markup:
    """A time in UTC; the page's script converts it to local time."""
    return Markup('<time datetime="%s" data-moment>%s</time>') % _written(at)


def ago(at: datetime) -> Markup:
    """Show how long ago a time was, as a `time` element that the page's script keeps current."""
    return _relative(at, "ago", relative_past(datetime.now(UTC) - at))


def left(at: datetime) -> Markup:
    """Show how long it is until a time, then `overdue`; the page's script keeps it current."""
    return _relative(at, "left", relative_future(at))


def relative_past(since: Any) -> str:
    """`just now`, `4 min ago`, `3 h ago`, `12 days ago`."""
    seconds = max(0.0, since.total_seconds())
    return "just now" if seconds < _MINUTE else f"{roughly(seconds)} ago"


def relative_future(at: datetime) -> str:
    """`in 23 min`; `overdue` afterwards."""
    seconds = (at - datetime.now(UTC)).total_seconds()
    return "overdue" if seconds <= 0 else f"in {roughly(seconds)}"


def _relative(at: datetime, kind: str, said: str) -> Markup:
    return Markup('<time datetime="%s" title="%s" data-%s>%s</time>') % (*_written(at), kind, said)


@lru_cache(maxsize=4096)
def _written(at: datetime) -> tuple[str, str]:
    """Cached: open lists are rendered on every change."""
    return at.astimezone(UTC).isoformat(timespec="seconds"), formats.moment(at)


def line(text: str, limit: int = 300) -> str:
    """Hidden characters (control and bidi) are made visible, and the rest is counted."""
    return inert.line(text, limit)


def who(person: Person | None, names: Names, nobody: str = "nobody in Slack") -> str:
    """Return a person's handle and real name in at most 80 characters, made visible; `nobody` if there is no person."""
    return line(names.in_full(person.user_id), 80) if person else nobody


def people(all_of_them: Sequence[Person], names: Names, at_most: int = 100) -> str:
    """`Ada, Grace and 2 more`."""
    return "".join(enumerated([who(each, names) for each in all_of_them], at_most))


State = RequestStatus | ApprovalState | RunStatus | CallOutcome | ExecutionStatus | Hold

_COLOURS: Mapping[type[State], Mapping[State, str]] = {
    RequestStatus: {each: each.value for each in RequestStatus},
    ApprovalState: {
        ApprovalState.VOID: "cancelled",
        ApprovalState.LAPSED: "expired",
        ApprovalState.HANDED_OVER: "expired",
        ApprovalState.NOT_RUN: "cancelled",
        ApprovalState.RUNNING: "working",
        ApprovalState.DONE: "approved",
        ApprovalState.FAILED: "rejected",
        ApprovalState.NOTHING_DONE: "cancelled",
        ApprovalState.RETRYING: "working",
        ApprovalState.IN_DOUBT: "doubt",
        ApprovalState.MARKED_DONE: "approved",
        ApprovalState.RETRY_WANTED: "working",
    },
    RunStatus: {
        RunStatus.WORKING: "working",
        RunStatus.PENDING_APPROVAL: "waiting",
        RunStatus.COMPLETED: "approved",
        RunStatus.DENIED: "rejected",
        RunStatus.FAILED: "rejected",
        RunStatus.CANCELLED: "cancelled",
    },
    Hold: {Hold.PAUSED: "cancelled", Hold.SLEEPING: "waiting"},
    CallOutcome: {
        **{CallOutcome(cause): words.status.value for cause, words in REFUSALS.items()},
        CallOutcome.LAPSED: "expired",
        CallOutcome.NOT_RUN: "cancelled",
        CallOutcome.FAILED: "rejected",
        CallOutcome.DENIED: "rejected",
        CallOutcome.NOTHING_DONE: "rejected",
    },
}
"""By type first, because equal texts of two enumerations are one key."""


def state_words(state: State) -> str:
    """Always shown beside the colour."""
    match state:
        case RequestStatus() | ApprovalState():
            return status_words.of_request(state)
        case RunStatus() | CallOutcome() | Hold():
            return status_words.of_run(state)
        case _:
            return EXECUTED[state].value.capitalize()


def colour(state: State) -> str:
    """Return the CSS class that gives a state its colour and icon."""
    known = EXECUTED[state] if isinstance(state, ExecutionStatus) else state
    return _COLOURS[type(known)][known]


def pairs(values: Iterable[str]) -> list[tuple[str, str]]:
    """Return each value as both value and label, for a list of choices."""
    return [(value, value) for value in values]


FILTERS: dict[str, Callable[..., Any]] = {
    "moment": moment,
    "ago": ago,
    "left": left,
    "line": line,
    "roughly": roughly,
    "pairs": pairs,
    "visible": visible,
    "state_words": state_words,
    "colour": colour,
}
