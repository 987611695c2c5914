"""Failures that are retried are logged once a minute for each cause, however many parts of a process meet it.

While the database is away, every poll, sweep, lease and click fails for the same reason, several times a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Any

import structlog

from agent.database.errors import BudgetExceeded, DatabaseError, DatabaseRefuses

log = structlog.get_logger(__name__)

QUIET = 60.0
"""Seconds."""

MOST = 1000
"""Causes that are remembered."""

_said: dict[Hashable, tuple[float, int]] = {}
_lock = threading.Lock()


def log_failure(event: str, error: BaseException, *, action: str, **names: Any) -> None:
    """Warn, unless the same cause was logged within a minute; the next line says how often it was."""
    words = str(error) or type(error).__name__
    repeated = _count(_cause(error) or (action, *names.values(), words))
    if repeated is not None:
        more = {"repeated": repeated} if repeated else {}
        log.warning(event, action=action, error=words, **names, **more)


def forget_failures() -> None:
    """Log each cause again."""
    _said.clear()


def _count(cause: Hashable) -> int | None:
    """How often it was met in silence; ``None``: it was logged less than a minute ago."""
    now = time.monotonic()
    with _lock:
        at, repeated = _said.get(cause, (now - QUIET, 0))
        if now - at < QUIET:
            _said[cause] = at, repeated + 1
            return None
        if len(_said) >= MOST:
            for old in [each for each, (at, _) in _said.items() if now - at >= QUIET]:
                del _said[old]
        if len(_said) < MOST:
            _said[cause] = now, 0
        return repeated


def _cause(error: BaseException) -> Hashable:
    """What all parts of the process have in common; ``None``: nothing is known."""
    match error:
        case DatabaseRefuses(reason=reason):
            return DatabaseRefuses, reason
        case BudgetExceeded():
            return BudgetExceeded
        case DatabaseError():
            return type(error), str(error)
    return None
