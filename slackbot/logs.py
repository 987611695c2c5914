"""Logs: one event a line, with a stable ``action`` key; as text for people or JSON for machines, never with secrets."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

QUIET = {"apscheduler": logging.WARNING, "procrastinate": logging.ERROR, "httpx": logging.WARNING}
"""Libraries that tell more of their own life than of ours."""


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
            *([structlog.processors.format_exc_info] if form == "json" else []),
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
