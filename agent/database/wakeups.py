"""Wake-ups: "look at this now", sent after COMMIT. The tables hold the work; a lost wake-up only delays it.

Work for other processes is announced by ``NOTIFY`` in its own transaction: in a fact's, it would hold a lock of the
whole server until the disk has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Self
from uuid import UUID

import structlog

from agent.database.background import start_task
from agent.database.failure_log import log_failure

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

    @classmethod
    def run(cls, run_id: UUID, agent: str) -> Self:
        return cls(WakeupKind.RUN, run_id, agent)

    @classmethod
    def call(cls, call_id: UUID, agent: str, *, first: bool = False, last: bool = False) -> Self:
        return cls(WakeupKind.CALL, call_id, agent, first, last)

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

    def __init__(self, announce: Callable[[], Awaitable[None]] | None = None) -> None:
        self._announce = announce
        self._listeners: dict[Listener, None] = {}
        self._looks: dict[Callable[[], object], None] = {}
        self._announcing: asyncio.Task[None] | None = None
        self._again = False

    def listen(self, listener: Listener) -> Callable[[], object]:
        """Call ``listener`` with what earlier ones left. Returns an unsubscriber."""
        self._listeners[listener] = None
        return partial(self._listeners.pop, listener, None)

    def on_announcement(self, look: Callable[[], object]) -> Callable[[], object]:
        """Call ``look`` when other processes may have left work.

        It must be quick and not raise. Returns an unsubscriber.
        """
        self._looks[look] = None
        return partial(self._looks.pop, look, None)

    def announced(self) -> None:
        for look in tuple(self._looks):
            look()

    def send(self, wakeups: Sequence[Wakeup]) -> None:
        """The work is committed, so this neither waits nor raises."""
        for listener in tuple(self._listeners):
            if not wakeups:
                return
            try:
                wakeups = listener(wakeups)
            except Exception:
                log.exception("wake-ups were not handled", action="wakeups.failed")
        if wakeups:
            self.announce()

    def announce(self) -> None:
        """Neither waits nor raises."""
        if self._announce is None:
            return
        self._again = True
        if self._announcing is None or self._announcing.done():
            self._announcing = start_task(self._tell_others(self._announce), "announce")

    async def finish(self) -> None:
        if self._announcing is not None:
            await asyncio.gather(self._announcing, return_exceptions=True)

    async def _tell_others(self, announce: Callable[[], Awaitable[None]]) -> None:
        """Requests during an announcement become one more."""
        while self._again:
            self._again = False
            try:
                await announce()
            except Exception as error:  # others poll within a second
                log_failure("other processes were not notified", error, action="wakeups.lost")
