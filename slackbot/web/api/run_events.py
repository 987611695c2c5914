"""`/runs/{run_id}/events`: ids and states, never arguments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.database.pools import Database
from agent.domain.audit import AuditKind, run_subject
from agent.domain.errors import NotFound
from agent.domain.run import CallOutcome, RunStatus
from agent.store import views
from agent.store.views import Transition
from agent.usecases import api_keys
from agent.usecases.api_keys import TooManyCalls
from slackbot.web.api import events
from slackbot.web.api.event_feed import KINDS, OVERLAP, EventPosition, Feed
from slackbot.web.api.events import STREAM, Events, LastEventID, Presented, line, position, stream_place
from slackbot.web.api.run_starts import run_for
from slackbot.web.http.api_keys import Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.problems import documented

router = APIRouter(route_class=StrictRoute, tags=["Events"])

_BATCH = 1_000
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_ENDED = (RunStatus.COMPLETED, RunStatus.DENIED, RunStatus.FAILED, RunStatus.CANCELLED)


@router.get(
    "/runs/{run_id}/events",
    operation_id="watch_run",
    status_code=200,
    response_class=Events,
    responses={
        **STREAM,
        204: {"description": "The run has ended, and nothing followed that event"},
        **documented(401, 403, 404, 422, 429, 503),
    },
)
async def watch_run(
    request: Request, run_id: UUID, presented: Presented, caller: Reader, last_event_id: LastEventID = None
) -> Response:
    """Stream one run: past events, then new ones until it ends, including those of its requests.

    Delivery is at least once; each event has a stable `id`. After a disconnect, send the last one as `Last-Event-ID`.
    Once the run has ended and nothing more follows, the response is 204, which stops a browser's EventSource.
    """
    ctx = web_context(request)
    since = position(last_event_id)
    await run_for(ctx, caller, run_id)
    record = _RunRecord.after(ctx.db, run_id, since)
    if since is not None and await record.is_finished():
        return Response(status_code=204)
    place = stream_place(request, caller)
    feed: Feed = request.app.state.feed
    return Events(_lines(ctx, feed, record, presented.credentials), place)


@dataclass(eq=False)
class RunListener:
    """Wakes when the run may have new events. Without a queue, it cannot fall behind."""

    subjects: set[str]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    def tell(self, event: Transition) -> bool:
        """An unknown request may belong to the run."""
        if event.subject in self.subjects or event.event == AuditKind.REQUEST_OPENED:
            self.changed.set()
        return True

    def end(self) -> None:
        self.ended = True
        self.changed.set()


@dataclass
class _RunRecord:
    db: Database
    run_id: UUID
    newest: datetime
    last_seqs: dict[str, int]
    """Per subject. Numbers have no gaps and commit in order."""

    @classmethod
    def after(cls, db: Database, run_id: UUID, since: EventPosition | None) -> _RunRecord:
        """Events after this one, and shortly before it in other subjects; without one, all."""
        last_seqs = {run_subject(run_id): 0} | ({since.subject: since.seq} if since else {})
        return cls(db, run_id, since.at if since else _BEGINNING, last_seqs)

    async def news(self) -> tuple[list[Transition], bool]:
        """Events are marked as sent; the flag says that no more will follow."""
        over, found = await self._look()
        news = [each for each in found if each.seq > self.last_seqs.get(each.subject, 0)]
        self.last_seqs |= {each.subject: each.seq for each in news}
        self.newest = max([self.newest, *(each.at for each in news)])
        return news, over

    async def is_finished(self) -> bool:
        over, found = await self._look()
        return over and all(each.at <= self.newest for each in found)

    async def _look(self) -> tuple[bool, list[Transition]]:
        """Whether the run has ended, and recent events, in this order, so that the final event is included.

        A person may later resume the run, or continue its conversation.
        """
        found: list[Transition] = []
        async with self.db.connection() as connection:
            run = await views.run_view(connection, self.run_id)
            over = run is None or (
                (isinstance(run.standing, CallOutcome) or run.standing in _ENDED)
                and not await views.is_busy(connection, self.run_id)
            )
            while True:
                after = found[-1].key if found else None
                batch = await views.run_transitions(
                    connection, KINDS, self.run_id, self.newest - OVERLAP, after=after, limit=_BATCH
                )
                found += batch
                if len(batch) < _BATCH:
                    return over, found


async def _lines(ctx: WebContext, feed: Feed, record: _RunRecord, secret: str) -> AsyncIterator[str]:
    """Holds no thread, and a connection only while reading."""
    listener = RunListener(set(record.last_seqs))
    async with feed.listener(listener):
        yield "retry: 2000\n\n"
        checked = time.monotonic()
        while not listener.ended:
            listener.changed.clear()
            news, over = await record.news()
            listener.subjects |= record.last_seqs.keys()
            for event in news:
                yield line(event, record.run_id)
            if over:
                return
            due = checked + events.HEARTBEAT
            try:
                async with asyncio.timeout(max(0.0, due - time.monotonic())):
                    await listener.changed.wait()
            except TimeoutError:
                if not await may_still_see(ctx, secret, record.run_id):
                    return
                yield ": still here\n\n"
                checked = time.monotonic()


async def may_still_see(ctx: WebContext, secret: str, run_id: UUID) -> bool:
    """Whether the key is valid and may see the run; true while the key's rate limit prevents the check."""
    try:
        caller = await api_keys.authenticate(ctx.db, secret)
        if caller is None:
            return False
        await run_for(ctx, caller, run_id)
    except TooManyCalls:
        return True
    except NotFound:
        return False
    return True
