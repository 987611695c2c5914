"""What happens, told to any number of listeners at the cost of one: ids and states, never what is in a request.

Each event, with an id for good, is told at least once: after a break a listener hears again what lies shortly before
the last one, as transactions do not commit in the order of their clocks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.store import views
from agent.store.views import Transition
from slackbot.web.api.shapes import rfc3339
from slackbot.web.http.watch import ChangeWatch

log = structlog.get_logger(__name__)

OVERLAP = timedelta(seconds=15)
"""How much older than the newest event a further one may be: more than any transaction of ours takes."""

MOST_MISSED = 10_000
"""Events that are told after a break; whoever has missed more is told to look at everything anew."""

MOST_WAITING = 1_000
"""Events that lie ready for one listener; one that is slower is let go, and comes back with its last one."""

_BATCH = 1_000
_ID = re.compile(r"([0-9T:.+Z-]{20,32})/((?:request|run):[0-9a-f-]{36})/([0-9]{1,9})")

TYPES: dict[AuditKind, str] = {
    AuditKind.REQUEST_OPENED: "request.opened",
    AuditKind.REQUEST_DECIDED: "request.decided",
    AuditKind.REQUEST_EXPIRED: "request.decided",
    AuditKind.REQUEST_WITHDRAWN: "request.decided",
    AuditKind.REQUEST_REOPENED: "request.changed",
    AuditKind.REQUEST_EDITED: "request.changed",
    AuditKind.REQUEST_ESCALATED: "request.changed",
    AuditKind.VOTE_CAST: "request.changed",
    AuditKind.APPROVAL_LAPSED: "request.changed",
    AuditKind.EXECUTION_CLAIMED: "request.changed",
    AuditKind.EXECUTION_SUCCEEDED: "request.changed",
    AuditKind.EXECUTION_FAILED: "request.changed",
    AuditKind.EXECUTION_IN_DOUBT: "request.changed",
    AuditKind.EXECUTION_RETRY_WANTED: "request.changed",
    AuditKind.EXECUTION_SETTLED: "request.changed",
    AuditKind.RUN_STARTED: "run.changed",
    AuditKind.RUN_MESSAGE: "run.changed",
    AuditKind.RUN_RESUMED: "run.changed",
    AuditKind.RUN_ENDED: "run.changed",
}
"""What listeners are told of, and under which name."""

KINDS = [kind.value for kind in TYPES]


@dataclass(frozen=True, slots=True)
class EventPosition:
    """The last event that a listener had."""

    at: datetime
    id: str

    @property
    def subject(self) -> str:
        """What it is about."""
        return self.id.split("/")[1]

    @property
    def seq(self) -> int:
        """Its number there."""
        return int(self.id.split("/")[2])

    @classmethod
    def read(cls, text: str) -> EventPosition:
        """An event's id. Raises ValueError."""
        if not (found := _ID.fullmatch(text)):
            raise ValueError("is not the id of an event")
        at = datetime.fromisoformat(found[1])
        if at.tzinfo is None or at.year < 2000:
            raise ValueError("is not the id of an event")
        return cls(at, text)


def event_id(event: Transition) -> str:
    """What names the event for good."""
    return f"{rfc3339(event.at)}/{event.subject}/{event.seq}"


class Listening(Protocol):
    """Somebody who is told."""

    def tell(self, event: Transition) -> bool:
        """False: too slow."""

    def end(self) -> None:
        """There will be no more."""


@dataclass(eq=False)
class Listener:
    """Somebody who is told everything; ``None`` is the end."""

    queue: asyncio.Queue[Transition | None] = field(default_factory=lambda: asyncio.Queue(MOST_WAITING + 1))

    def tell(self, event: Transition) -> bool:
        """False: too slow."""
        if self.queue.qsize() >= MOST_WAITING:
            self.queue.put_nowait(None)
            return False
        self.queue.put_nowait(event)
        return True

    def end(self) -> None:
        """There will be no more."""
        if not self.queue.full():
            self.queue.put_nowait(None)


class Feed:
    """One look at the record for all who listen, whenever something has changed and only while somebody listens."""

    def __init__(self, db: Database, watch: ChangeWatch) -> None:
        self._db = db
        self._watch = watch
        self._listeners: set[Listening] = set()
        self._known: dict[str, datetime] = {}
        self._newest: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @asynccontextmanager
    async def listener(self, listener: Listening) -> AsyncIterator[None]:
        """Tell them what is recorded from now on."""
        async with self._starting:
            if self._task is None or self._task.done():
                await self._begin()
                self._task = asyncio.create_task(self._go(), name="feed")
            self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    async def missed(self, since: EventPosition) -> list[Transition] | None:
        """What was recorded after that event, and shortly before; ``None``: too much to tell."""
        found: list[Transition] = []
        start = since.at - OVERLAP
        async with self._db.connection() as connection:
            while len(found) <= MOST_MISSED:
                after = found[-1].key if found else None
                batch = await views.transitions(connection, KINDS, start, after=after, limit=_BATCH)
                found += batch
                if len(batch) < _BATCH:
                    return [each for each in found if event_id(each) != since.id]
        return None

    async def _begin(self) -> None:
        """Nothing that is there by now is news."""
        async with self._db.connection() as connection:
            self._newest = await views.now(connection)
            recent = await views.transitions(connection, KINDS, self._newest - OVERLAP, limit=MOST_MISSED)
        self._known = {event_id(each): each.at for each in recent}

    async def _go(self) -> None:
        seen: str | None = None
        while self._listeners and not self._watch.closing:
            seen = await self._watch.anything(seen, OVERLAP.total_seconds())
            try:
                for event in await self._news():
                    slow = {each for each in self._listeners if not each.tell(event)}
                    self._listeners -= slow
            except Exception as error:  # whatever it is, the next look tells it
                log.warning(
                    "the feed missed a poll", action="feed.failed", error=str(error) or type(error).__name__
                )
        for listener in self._listeners:
            listener.end()

    async def _news(self) -> list[Transition]:
        if self._newest is None:
            return []
        recent = await self._db.read(views.transitions, KINDS, self._newest - OVERLAP, limit=MOST_MISSED)
        news = [each for each in recent if event_id(each) not in self._known]
        self._known.update((event_id(each), each.at) for each in news)
        if news:
            self._newest = max(self._newest, news[-1].at)
            too_old = self._newest - 2 * OVERLAP
            self._known = {name: at for name, at in self._known.items() if at >= too_old}
        return news

    async def stop(self) -> None:
        """Tell everybody that there will be no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for listener in self._listeners:
            listener.end()
