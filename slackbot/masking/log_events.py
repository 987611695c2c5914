"""Log events and tracebacks lose their secrets before they are written."""

from __future__ import annotations

import re
import sys
import threading
import traceback
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import date
from types import TracebackType
from typing import Any
from uuid import UUID

from signoff.description import shown
from signoff.masks import TextSpan, redact_value
from slackbot.masking.secret_finder import SHORT, SecretFinder

BUDGET = 0.1
"""Seconds per log event or message."""

MAX_WORDS = 1000
"""Remembered words without a secret."""

_WORD = re.compile(r"[a-z_. ]{1,40}")
_harmless: set[str] = set()

# Under these names, ids, times and words of ours are shown without a search; other text is searched.
_OF_OURS = frozenset(
    {
        "action",
        "agent",
        "by",
        "call_id",
        "event",
        "execution_id",
        "level",
        "logger",
        "request_id",
        "run_id",
        "status",
    }
    | {"timestamp", "tool", "attempt", "outcome", "revision", "head", "head_seq", "calls"}
    | {"request_ids", "revisions", "heads", "head_seqs"}
)
_COUNTS = frozenset({"tokens"})
"""Names of counts. A text there may be a secret."""

_ID_HASH_OR_TIME = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    r"|slack:[TE][A-Z0-9]{1,15}/[UW][A-Z0-9]{1,15}",
    re.ASCII,
)

_DEEPEST = 12


def clean_now(text: str, *, assigned: bool = True) -> str:
    """Mask any text, in the caller's thread; a short one is searched however busy the machine is.

    Not `assigned`: a message may name a setting, `SLACK_BOT_TOKEN: must begin with xoxb-`.
    """
    return shown(text, SecretFinder(budget=BUDGET, assigned=assigned, sure=SHORT))


def clean_error(error: BaseException) -> str:
    """Return an error's type and message with secrets masked, for a log line."""
    message = str(error)
    return clean_now(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def clean_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A structlog processor just before the renderer: masks every text, key and traceback."""
    known = {key: value for key, value in event.items() if _is_harmless(key, value)}
    rest = {key: value for key, value in event.items() if key not in known}
    return (_cleaned(rest) | known) if rest else known


def _is_harmless(key: str, value: object) -> bool:
    if key in _COUNTS:
        return type(value) is int
    if key not in _OF_OURS:
        return False
    return all(map(_is_ours, value)) if type(value) is list else _is_ours(value)


def _is_ours(value: object) -> bool:
    if isinstance(value, str):
        return value in _harmless or _ID_HASH_OR_TIME.fullmatch(value) is not None
    return value is None or type(value) in (bool, int)


def _cleaned(event: Mapping[str, Any]) -> dict[str, Any]:
    # Names of ours are searched first, and short texts however busy the machine is: an action is always shown.
    find = SecretFinder(budget=BUDGET, sure=SHORT)
    event = dict(sorted(event.items(), key=lambda item: item[0] not in _OF_OURS))

    def found(text: str) -> Sequence[TextSpan]:
        return () if text in _harmless else _remembered(text, find(text))

    cleaned: dict[str, Any] = redact_value(_plain(event, 0), find=found).value
    return cleaned


def _remembered(text: str, spans: Sequence[TextSpan]) -> Sequence[TextSpan]:
    """The same short words come with every event."""
    if not spans and len(_harmless) < MAX_WORDS and _WORD.fullmatch(text):
        _harmless.add(text)
    return spans


def guard_tracebacks() -> None:
    """From now on, mask secrets in the tracebacks of uncaught errors, also in threads."""
    sys.excepthook = _print
    threading.excepthook = lambda args: _print(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(clean_now("".join(traceback.format_exception(kind, error, trace))))


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return "…"
    match value:
        case None | bool() | int() | float() | str():
            return value
        case UUID() | date():
            return str(value)
        case Mapping():
            return {str(key): _plain(member, depth + 1) for key, member in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item, depth + 1) for item in value]
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case _:
            return repr(value)
