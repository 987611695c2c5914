"""Goes round the channels: where something may be told now, it is told.

There is no hint to lose: each round asks the database, which says in one short statement where that is. Channels that
a drain speaks in at this moment, of whichever process, are left to it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

import structlog

from agent.database.pools import Database
from agent.runtime import shutdown
from agent.usecases import deliveries
from slackbot.delivery.drain import Drain

log = structlog.get_logger(__name__)

PACE = 0.1
"""Seconds between two rounds: what was decided is on its card soon after, and nobody is asked often."""

AFTER_FAILURE = 1.0
"""Seconds until the next round when the database did not answer."""

LONGEST = 5.0
"""Seconds of the longest pause: a round that takes long, because much is put off, is followed by a longer one."""

SHARE = 5
"""The pause after a round is at least so many times as long as the round took."""

AT_ONCE = 50
"""Channels that one process speaks in at the same time; most of them rest most of the time."""

OVERDUE = 10.0
"""Seconds after which a round should have ended."""


class DeliveryPoller:
    """Drains the channels of one workspace, several at a time, until stopped."""

    def __init__(self, db: Database, team_id: str, drain: Drain, *, pace: float = PACE) -> None:
        self._db = db
        self._team_id = team_id
        self._drain = drain
        self._pace = pace
        self._drains: dict[str, asyncio.Task[None]] = {}
        self._going: asyncio.Task[None] | None = None
        self._ended: float | None = None

    @property
    def alive(self) -> bool:
        """Whether a round came to a good end lately."""
        return self._ended is not None and monotonic() - self._ended < OVERDUE

    def start(self) -> None:
        """Begin; a database that is away is waited for."""
        self._going = asyncio.create_task(self._go(), name="rounds")

    async def stop(self, seconds: float) -> None:
        """Begin no more, and let what is being told be told within so many seconds."""
        if self._going is None:
            return
        self._going.cancel()
        with suppress(asyncio.CancelledError):
            await self._going
        self._ended = None
        self._drain.leave()
        await shutdown.end_tasks(self._drains.values(), seconds)

    async def _go(self) -> None:
        while True:
            began = monotonic()
            try:
                await self._round()
                self._ended = monotonic()
                pause = max(self._pace, min(LONGEST, SHARE * (self._ended - began)))
            except Exception as error:  # whatever it is, the next round finds everything as it is
                self._ended = None
                pause = AFTER_FAILURE
                log.warning(
                    "a round failed", action="rounds.failed", error=str(error) or type(error).__name__
                )
            await asyncio.sleep(pause)

    async def _round(self) -> None:
        for channel_id in await deliveries.channels_due(self._db, self._team_id):
            self._wake(channel_id)

    def _wake(self, channel_id: str) -> None:
        if channel_id in self._drains:
            self._drain.wake(channel_id)
        elif len(self._drains) < AT_ONCE:
            self._drains[channel_id] = asyncio.create_task(self._tell(channel_id), name=f"drain:{channel_id}")

    async def _tell(self, channel_id: str) -> None:
        try:
            await self._drain.run(self._team_id, channel_id)
        except Exception as error:  # the database, most likely; what was not told is found again
            log.warning(
                "a channel could not be told",
                action="delivery.failed",
                channel=channel_id,
                error=str(error) or type(error).__name__,
            )
            await asyncio.sleep(AFTER_FAILURE)
        finally:
            del self._drains[channel_id]
