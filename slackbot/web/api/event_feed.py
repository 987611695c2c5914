"""Events for any number of listeners at the cost of one database reader. Ids and states, never a request's content.

Delivery is at least once: each event has a permanent id, and a listener that reconnects gets events again from shortly
before its last one, because transactions do not commit in timestamp order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.store import views
from agent.store.views import Transition
from slackbot.web.api.shapes import rfc3339
from slackbot.web.http.watch import ChangeWatch

OVERLAP = timedelta(seconds=15)
"""How far events may arrive out of order: longer than any of our transactions."""

MAX_MISSED = 10_000
"""Events replayed after a break; a listener that missed more must reload everything."""

MAX_WAITING = 1_000
"""Queue size per listener; a slower one is disconnected and reconnects with its last event id."""

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

KINDS = [kind.value for kind in TYPES]


@dataclass(frozen=True, slots=True)
class EventPosition:
    """A place in the stream of events: the id of an event, and when it happened."""

    at: datetime
    id: str

    @property
    def subject(self) -> str:
        return self.id.split("/")[1]

    @property
    def seq(self) -> int:
        return int(self.id.split("/")[2])

    @classmethod
    def read(cls, text: str) -> EventPosition:
        """Raises ValueError."""
        if not (found := _ID.fullmatch(text)):
            raise ValueError("is not the id of an event")
        at = datetime.fromisoformat(found[1])
        if at.tzinfo is None or at.year < 2000:
            raise ValueError("is not the id of an event")
        return cls(at, text)


def event_id(event: Transition) -> str:
    """Return an event's permanent id, made of its time, subject and number."""
    return f"{rfc3339(event.at)}/{event.subject}/{event.seq}"


class Listening(Protocol):
    """A listener of the feed, which gets each event and learns when no more follow."""

    def tell(self, event: Transition) -> bool:
        """Return False if the queue is full."""

    def end(self) -> None:
        """No more events follow."""


@dataclass(eq=False)
class Listener:
    """``None`` marks the end."""

    queue: asyncio.Queue[Transition | None] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING + 1))

    def tell(self, event: Transition) -> bool:
        if self.queue.qsize() >= MAX_WAITING:
            self.queue.put_nowait(None)
            return False
        self.queue.put_nowait(event)
        return True

    def end(self) -> None:
        if not self.queue.full():
            self.queue.put_nowait(None)


class Feed:
    """Reads the audit log once for all listeners, on changes and only while somebody listens."""

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
        async with self._starting:
            if self._task is None or self._task.done():
                await self._begin()
                self._task = start_task(self._run(), "feed")
            self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    async def missed(self, since: EventPosition) -> list[Transition] | None:
        """Events after that one and shortly before it; ``None``: too many."""
        found: list[Transition] = []
        start = since.at - OVERLAP
        async with self._db.connection() as connection:
            while len(found) <= MAX_MISSED:
                after = found[-1].key if found else None
                batch = await views.transitions(connection, KINDS, start, after=after, limit=_BATCH)
                found += batch
                if len(batch) < _BATCH:
                    return [each for each in found if event_id(each) != since.id]
        return None

    async def _begin(self) -> None:
        """What happens while this reads is news, because callers already have the head of their stream."""
        self._newest = now = await self._db.read(views.now)
        self._known = {}
        async for page in self._recent(now):
            self._known.update((event_id(each), each.at) for each in page if each.at <= now)

    async def _run(self) -> None:
        seen: str | None = None
        while self._listeners and not self._watch.closing:
            seen = await self._watch.anything(seen, OVERLAP.total_seconds())
            try:
                async for event in self._news():
                    slow = {each for each in self._listeners if not each.tell(event)}
                    self._listeners -= slow
            except Exception as error:  # whatever it is, the next read delivers it
                log_failure("the feed missed a poll", error, action="feed.failed")
        for listener in self._listeners:
            listener.end()

    async def _news(self) -> AsyncIterator[Transition]:
        if self._newest is None:
            return
        async for page in self._recent(self._newest):
            news = [each for each in page if event_id(each) not in self._known]
            self._known.update((event_id(each), each.at) for each in news)
            if news:
                self._newest = max(self._newest, news[-1].at)
                too_old = self._newest - 2 * OVERLAP
                self._known = {name: at for name, at in self._known.items() if at >= too_old}
            for each in news:
                yield each

    async def _recent(self, newest: datetime) -> AsyncIterator[list[Transition]]:
        """Events since shortly before this time, in pages, however many there are."""
        page: list[Transition] = []
        while True:
            after = page[-1].key if page else None
            page = await self._db.read(views.transitions, KINDS, newest - OVERLAP, after=after, limit=_BATCH)
            yield page
            if len(page) < _BATCH:
                return

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for listener in self._listeners:
            listener.end()
