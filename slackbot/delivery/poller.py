"""Find channels with due messages, and start their drains.

Wake-ups name a channel at once; polling finds the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from time import monotonic

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.database.wakeups import Wakeup, WakeupKind
from agent.runtime import shutdown
from agent.usecases import deliveries
from slackbot.delivery.drain import Drain

PACE = 1.0
"""Seconds between polls."""

AFTER_FAILURE = 1.0
"""Seconds until the next poll after a database error."""

LONGEST = 5.0
"""Maximum seconds of the pause after a slow poll, which many postponed messages cause."""

SHARE = 5
"""After a poll, the database rests this many times its duration."""

AT_ONCE = 50
"""Concurrent drains, mostly idle."""

OVERDUE = 10.0
"""Seconds without a successful poll after which the poller is unhealthy."""


class DeliveryPoller:
    """A poller that finds channels with due messages, and keeps one drain running for each of them."""

    def __init__(self, db: Database, team_id: str, drain: Drain, *, pace: float = PACE) -> None:
        self._db = db
        self._team_id = team_id
        self._drain = drain
        self._pace = pace
        self._drains: dict[str, asyncio.Task[None]] = {}
        self._look_now = asyncio.Event()
        self._is_full = False
        self._context = Context()
        self._going: asyncio.Task[None] | None = None
        self._leave: list[Callable[[], object]] = []
        self._ended: float | None = None

    @property
    def alive(self) -> bool:
        return self._ended is not None and monotonic() - self._ended < OVERDUE

    def start(self) -> None:
        """Starts even while the database is unavailable."""
        self._context = copy_context()
        wakeups = self._db.wakeups
        self._leave = [wakeups.listen(self.take), wakeups.on_announcement(self._look_now.set)]
        self._going = start_task(self._poll(), "rounds")

    async def stop(self, seconds: float) -> None:
        """Running drains may finish within ``seconds``."""
        if self._going is None:
            return
        for leave in self._leave:
            leave()
        self._going.cancel()
        with suppress(asyncio.CancelledError):
            await self._going
        self._ended = None
        self._drain.leave()
        await shutdown.end_tasks(self._drains.values(), seconds)

    def take(self, wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        """Drain the named channels; returns the wake-ups left to others."""
        return [
            each for each in wakeups if each.kind is not WakeupKind.CHANNEL or not self._wake(str(each.key))
        ]

    async def _poll(self) -> None:
        while True:
            self._look_now.clear()
            began = monotonic()
            try:
                await self._round()
                self._ended = monotonic()
                rest = min(LONGEST, SHARE * (self._ended - began))
            except Exception as error:  # the next poll finds everything unchanged
                self._ended = None
                rest = AFTER_FAILURE
                log_failure("delivery poll failed", error, action="rounds.failed")
            await asyncio.sleep(rest)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace - rest):
                    await self._look_now.wait()

    async def _round(self) -> None:
        for channel_id in await deliveries.channels_due(self._db, self._team_id):
            self._wake(channel_id)

    def _wake(self, channel_id: str) -> bool:
        """False: too many drains run; the next poll finds the channel."""
        if channel_id in self._drains:
            self._drain.wake(channel_id)
            return True
        self._is_full = len(self._drains) >= AT_ONCE
        if not self._is_full:
            # The drain must not inherit the committer's log context.
            context = self._context.copy()
            task = start_task(self._tell(channel_id), f"drain:{channel_id}", context)
            self._drains[channel_id] = task
        return not self._is_full

    async def _tell(self, channel_id: str) -> None:
        try:
            await self._drain.run(self._team_id, channel_id)
        except Exception as error:  # unsent messages are found again
            log_failure("messages to a channel failed", error, action="delivery.failed", channel=channel_id)
            await asyncio.sleep(AFTER_FAILURE)
        finally:
            del self._drains[channel_id]
            if self._is_full:
                self._look_now.set()
