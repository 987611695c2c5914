"""Logs: one masked event per line with a stable ``action`` key, as text or JSON."""

from __future__ import annotations

import logging
import re
import sys
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from slackbot import masking

QUIET = {
    "alembic": logging.WARNING,  # `signoff db upgrade` says what it does
    "apscheduler": logging.WARNING,
    "httpx": logging.WARNING,
    # At DEBUG these print whole payloads, with values that only a checkpoint's `redact` makes secret.
    "openai": logging.INFO,
    "httpcore": logging.INFO,
    "httpcore2": logging.INFO,
    "httpx2": logging.WARNING,
    "aiohttp": logging.INFO,
    "slack_sdk": logging.INFO,
    "slack_bolt": logging.INFO,
    "slackbot.bolt": logging.INFO,
    "slackbot.slack.socket_mode.sdk": logging.INFO,
    "sqlalchemy": logging.WARNING,
    "uvicorn": logging.WARNING,
    "psycopg": logging.ERROR,  # it warns of each pipeline that a failed statement ends
}
"""Libraries that log too much, or more than may be read."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_OF_LINES = ("exception", "stack")
_CONTROL_IN_LINES = re.compile(_CONTROL.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def configure(level: str = "INFO", form: str = "text") -> None:
    """Set up the process's logs: one masked event per line on standard error, as text or JSON."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: Any = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(),
        exception_formatter=structlog.dev.plain_traceback,  # rich's would show local variables
    )
    if form == "json":
        last = structlog.processors.JSONRenderer()
    rendering = [
        structlog.processors.format_exc_info,  # before cleaning: a renderer would print locals
        structlog.processors.StackInfoRenderer(),
        masking.clean_event,
        *([] if form == "json" else [_in_one_line]),
        last,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(allow=("action", "status"))],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(max(quiet, root.level))
    structlog.configure(
        processors=[*shared, *rendering],
        logger_factory=partial(_Lines, handler),
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=False,
    )


class _Lines:
    """A standard library record per line would take twice the time."""

    def __init__(self, handler: logging.StreamHandler[TextIO], *_: object) -> None:
        self._handler = handler

    def write(self, line: str) -> None:
        """Raises nothing: a full disk must not block decisions."""
        with suppress(OSError, ValueError):
            self._handler.stream.write(f"{line}\n")
            self._handler.flush()

    debug = info = warning = warn = error = critical = exception = log = msg = write


def _in_one_line(_: Any, __: str, event: EventDict) -> EventDict:
    """Escape control characters: external text must not start a line or move the cursor.

    Tracebacks keep their line breaks.
    """
    return {
        key: (_CONTROL_IN_LINES if key in _OF_LINES else _CONTROL).sub(_seen, value)
        if isinstance(value, str)
        else value
        for key, value in ((key, _as_read(value)) for key, value in event.items() if value is not None)
    }


def _as_read(value: object) -> object:
    if isinstance(value, list | tuple | set | frozenset):
        return " ".join(str(each) for each in value)
    return value if isinstance(value, int | float) else str(value)


def _seen(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
