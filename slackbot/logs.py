"""Logs: one event a line, with a stable ``action`` key; as text for people or JSON for machines, never with secrets."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from slackbot import secrets

QUIET = {
    "apscheduler": logging.WARNING,
    "procrastinate": logging.ERROR,
    "httpx": logging.WARNING,
    # At DEBUG these print whole payloads, in which a value may be secret only by its checkpoint's `redact`.
    "openai": logging.INFO,
    "httpcore": logging.INFO,
    "httpcore2": logging.INFO,
    "httpx2": logging.WARNING,
    "aiohttp": logging.INFO,
    "slack_sdk": logging.INFO,
    "slack_bolt": logging.INFO,
    "slackbot.bolt": logging.INFO,
    "slackbot.socket_mode.sdk": logging.INFO,
    "sqlalchemy": logging.WARNING,
    "psycopg": logging.WARNING,
}
"""Libraries that tell more of their own life than of ours, or more than anybody may read."""


def configure(level: str = "INFO", form: str = "text") -> None:
    """Send structlog's and the standard library's records through one pipe to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(allow=("action", "status")),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared[:2], shared[3], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    last: Any = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(),
        exception_formatter=structlog.dev.plain_traceback,  # rich's would show local variables, secrets included
    )
    if form == "json":
        last = structlog.processors.JSONRenderer()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,  # before cleaning: a renderer would print locals
            structlog.processors.StackInfoRenderer(),
            secrets.clean_event,
            last,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(max(quiet, root.level))
