"""The limit of open files (RLIMIT_NOFILE), and the HTTP connections that it allows."""

from __future__ import annotations

import resource
from contextlib import suppress

from slackbot.settings import Role, Settings
from slackbot.web.http.shares import share_of

RESERVE = 256
"""Open files for Slack, the database, health, the model, webhooks, lookups, and connections that are being closed."""

PROMISED = 5_000
"""Callers of one key that may wait in one process (docs/operations.md)."""

ENOUGH = 8_192
"""A limit that allows them."""

MOST = 10_000
"""Connections of a process, whatever the limit: a waiting caller takes up to 25 KB of memory."""

_STEPS = (1_048_576, 65_536, 10_240)
"""Where the hard limit is no number, or more than the system allows (macOS)."""


def raise_limit() -> int:
    """Raise the soft limit to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, *_STEPS):
        if soft in (hard, resource.RLIM_INFINITY) or (wanted <= soft and wanted != resource.RLIM_INFINITY):
            break
        if hard == resource.RLIM_INFINITY or wanted <= hard:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                break
    return soft_limit()


def soft_limit() -> int:
    """Return how many files this process may have open now; unlimited counts as 1,048,576."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def hard_limit() -> int:
    """Return to how many open files this process may raise its limit; unlimited counts as 1,048,576."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def connections_within(limit: int, settings: Settings) -> int:
    """HTTP connections at most; each running tool may have a file of its own."""
    running = settings.concurrency if Role.WORKER in settings.roles else 0
    return min(MOST, limit - min(RESERVE + running, limit // 2))


def shortage(settings: Settings, limit: int) -> str | None:
    """What a limit below the promised one means; ``None`` if it suffices."""
    share = share_of(connections_within(limit, settings))
    if Role.WEB not in settings.roles or share >= PROMISED:
        return None
    return f"{limit:,} open files let {share:,} callers of one key wait at a time, not {PROMISED:,}; the others poll"


def _number(limit: int) -> int:
    return _STEPS[0] if limit == resource.RLIM_INFINITY else limit
