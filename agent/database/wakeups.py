"""Wake-ups: "look at this now", sent after COMMIT. The tables hold the work; a lost wake-up only delays it.

Work for other processes is announced by ``NOTIFY`` in its own transaction: in a fact's, it would hold a lock of the
whole server until the disk has answered. The announcement names the work, so that whoever can do it begins at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import LiteralString, Self
from uuid import UUID

import structlog

from agent.database.background import start_task
from agent.database.failure_log import log_failure

# Announcements need not survive a crash, so nothing waits for the disk. PostgreSQL commits them one at a time; a click
# does not wait for those of other applications.
_QUICK: LiteralString = (
    "set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '100', true)"
)
ANNOUNCE: LiteralString = f"SELECT {_QUICK}, pg_notify(%s, %s)"

MOST_BYTES = 7_900
"""Of an announcement's text; PostgreSQL takes 7,999."""

log = structlog.get_logger(__name__)


class WakeupKind(StrEnum):
    """A kind of work that a wake-up announces; its value is the word in the notification."""

    RUN = "run"
    CALL = "call"
    CHANNEL = "channel"
    NOTICES = "notices"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Wakeup:
    """A hint, sent after COMMIT, that one run, call, channel, notice target or the policy has work."""

    kind: WakeupKind
    key: UUID | str
    agent: str | None = None
    first: bool = False
    """A person waits."""
    last: bool = False
    """Goes after all other work: no person waits for it."""
    approved: tuple[UUID, UUID] | None = None
    """The run and the request of a call that people approved just now: it may be claimed without a look at it."""

    @classmethod
    def run(cls, run_id: UUID, agent: str) -> Self:
        return cls(WakeupKind.RUN, run_id, agent)

    @classmethod
    def call(
        cls,
        call_id: UUID,
        agent: str,
        *,
        first: bool = False,
        last: bool = False,
        approved: tuple[UUID, UUID] | None = None,
    ) -> Self:
        return cls(WakeupKind.CALL, call_id, agent, first, last, approved)

    @classmethod
    def channel(cls, channel_id: str) -> Self:
        return cls(WakeupKind.CHANNEL, channel_id)

    @classmethod
    def notices(cls, target: str) -> Self:
        """``target``: a webhook's id, or ``agent.domain.outbound.MAIL``."""
        return cls(WakeupKind.NOTICES, target)

    @classmethod
    def policy(cls) -> Self:
        return cls(WakeupKind.POLICY, "policy")


Listener = Callable[[Sequence[Wakeup]], Sequence[Wakeup]]
"""Takes wake-ups, quickly; returns the rest."""


class Wakeups:
    """Announces wake-ups that no listener of this process takes."""

    def __init__(self, announce: Callable[[str], Awaitable[None]] | None = None) -> None:
        """``announce``: sends a text to every process; ``None`` announces nothing."""
        self._announce = announce
        self._listeners: dict[Listener, None] = {}
        self._looks: dict[Callable[[], object], None] = {}
        self._announcing: asyncio.Task[None] | None = None
        self._untold: list[Wakeup] = []
        self._all_look = False

    def listen(self, listener: Listener) -> Callable[[], object]:
        """Call ``listener`` with what earlier ones left. Returns an unsubscriber."""
        self._listeners[listener] = None
        return partial(self._listeners.pop, listener, None)

    def on_announcement(self, look: Callable[[], object]) -> Callable[[], object]:
        """Call ``look`` when other processes may have left work that they do not name.

        It must be quick and not raise. Returns an unsubscriber.
        """
        self._looks[look] = None
        return partial(self._looks.pop, look, None)

    def hear(self, announcement: str) -> None:
        """Pass on the work that an announcement names. One that names none asks everybody to look."""
        wakeups = _named(announcement)
        if wakeups is None:
            for look in tuple(self._looks):
                look()
        else:
            self._offer(wakeups)

    def announcement(self, wakeups: Sequence[Wakeup]) -> str | None:
        """Return the text that announces work none of which this process can do, or None if it may do some."""
        return None if self._listeners or not wakeups or self._announce is None else _text(wakeups)

    def send(self, wakeups: Sequence[Wakeup]) -> None:
        """The work is committed, so this neither waits nor raises."""
        if (left := self._offer(wakeups)) and self._announce is not None:
            self._untold += left
            self._begin(self._announce)

    def announce(self) -> None:
        """Have every process look. Neither waits nor raises."""
        if self._announce is not None:
            self._all_look = True
            self._begin(self._announce)

    async def finish(self) -> None:
        if self._announcing is not None and not self._announcing.done():
            await asyncio.gather(self._announcing, return_exceptions=True)

    def _offer(self, wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        """Returns what no listener takes."""
        for listener in tuple(self._listeners):
            if not wakeups:
                break
            try:
                wakeups = listener(wakeups)
            except Exception:
                log.exception("wake-ups were not handled", action="wakeups.failed")
        return wakeups

    def _begin(self, announce: Callable[[str], Awaitable[None]]) -> None:
        if self._announcing is None or self._announcing.done():
            self._announcing = start_task(self._tell_others(announce), "announce")

    async def _tell_others(self, announce: Callable[[str], Awaitable[None]]) -> None:
        """Requests during an announcement become one more."""
        while self._untold or self._all_look:
            text = "" if self._all_look else _text(self._untold)
            self._untold, self._all_look = [], False
            try:
                await announce(text)
            except Exception as error:  # others poll within a second
                log_failure("other processes were not notified", error, action="wakeups.lost")


def _text(wakeups: Sequence[Wakeup]) -> str:
    """Empty, which asks for a look, if they are too many to be named."""
    named = [[w.kind, str(w.key), w.agent, w.first, w.last, *map(str, w.approved or ())] for w in wakeups]
    text = json.dumps(named, separators=(",", ":"))
    return text if len(text) <= MOST_BYTES else ""


def _named(text: str) -> list[Wakeup] | None:
    """None if it names none: also what no process of ours has written."""
    try:
        return [_wakeup(*each) for each in json.loads(text)] or None if text else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _wakeup(kind: str, key: str, agent: str | None, first: bool, last: bool, *approved: str) -> Wakeup:
    run_id, request_id = map(UUID, approved) if approved else (None, None)
    of_row = WakeupKind(kind) in (WakeupKind.CALL, WakeupKind.RUN)
    return Wakeup(
        WakeupKind(kind),
        UUID(key) if of_row else str(key),
        agent,
        bool(first),
        bool(last),
        (run_id, request_id) if run_id and request_id else None,
    )
