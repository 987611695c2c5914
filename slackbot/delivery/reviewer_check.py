"""Notify operators when too few people can still approve a request."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

import structlog

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.people import CHANNEL
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_filter import RequestKind, RequestOrder
from agent.domain.request_line import RequestLine
from agent.domain.request_view import RequestView
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import requests
from signoff.values import Person
from slackbot.slack_api.directory import Directory, ReviewerCount

log = structlog.get_logger(__name__)

AGAIN = 30.0
"""Seconds until a retry if Slack or the database did not answer, which does not mean that reviewers are missing."""

EVERY = 3600.0
"""Seconds between looks at all waiting requests: an event may be lost."""

PAGE = 200
MOST = 2000
"""Waiting requests of one look, the oldest."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: RequestView | RequestLine
    needed: int
    approved: frozenset[Person]


class ReviewerCheck:
    """Counts reviewers in the background: for each request whose card is drawn, and for all that wait, each hour and
    when a group, a channel or a person has changed.
    """

    def __init__(
        self, db: Database, directory: Directory, admin: Destination | None, *, again: float = AGAIN
    ) -> None:
        self._db = db
        self._directory = directory
        self.admin = admin
        self._again = again
        self._looks: dict[UUID | str, asyncio.Task[None]] = {}
        self._looked_at: float | None = None

    def begin(self, view: RequestView) -> None:
        if self.admin is not None and view.status is RequestStatus.WAITING:
            self._start(view.id, self._until_counted(lambda: self._look(view.id)))

    def changed(self, slack_id: str) -> None:
        """Count for all that waits for this group or person, or in this channel."""
        if self.admin is not None:
            self._start(slack_id, self._until_counted(lambda: self._look_at_waiting(slack_id)))

    async def look_if_due(self) -> int:
        if self.admin is None or (self._looked_at is not None and monotonic() - self._looked_at < EVERY):
            return 0
        if await self._look_at_waiting():
            self._looked_at = monotonic()
        return 0

    async def finish(self) -> None:
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def stop(self) -> None:
        for look in self._looks.values():
            look.cancel()
        await self.finish()

    def _start(self, what: UUID | str, work: Coroutine[None, None, None]) -> None:
        if (earlier := self._looks.get(what)) is not None:
            earlier.cancel()
        look = self._looks[what] = start_task(work, f"reviewers:{what}")
        look.add_done_callback(lambda done: self._forget(what, done))

    def _forget(self, what: UUID | str, look: asyncio.Task[None]) -> None:
        if self._looks.get(what) is look:
            del self._looks[what]

    async def _until_counted(self, look: Callable[[], Coroutine[None, None, bool]]) -> None:
        while True:
            try:
                if await look():
                    return
            except Exception as error:  # an unknown error must not report reviewers as missing
                log_failure("reviewers not counted yet", error, action="reviewers.failed")
            await asyncio.sleep(self._again)

    async def _look(self, request_id: UUID) -> bool:
        """False: not known yet."""
        view = await self._db.read(views.request_view, request_id)
        if view is None or view.status is not RequestStatus.WAITING:
            return True
        approved = frozenset(vote.person for vote in view.votes if vote.verdict is Verdict.APPROVE)
        return await self._report([_Waiting(view, view.approvals_required - len(approved), approved)])

    async def _look_at_waiting(self, slack_id: str = "") -> bool:
        """False: not known yet."""
        audiences = defaultdict[tuple[object, ...], list[_Waiting]](list)
        for line in await self._waiting():
            if _may_concern(slack_id, line):
                needed = line.approvals_required - line.approvals
                waiting = _Waiting(line, needed, frozenset(line.voters))
                audiences[line.approvers, line.channel_id, needed].append(waiting)
        return all([await self._report(each) for each in audiences.values()])

    async def _waiting(self) -> list[RequestLine]:
        found: list[RequestLine] = []
        after: UUID | None = None
        while len(found) < MOST:
            page = await self._db.read(
                views.found_requests,
                self._directory.own_team_id,
                RequestKind.WAITING,
                order=RequestOrder.OLDEST,
                limit=PAGE,
                after=after,
            )
            found += page
            if len(page) < PAGE:
                break
            after = page[-1].id
        return found

    async def _report(self, audience: Sequence[_Waiting]) -> bool:
        """All have the same reviewers and need as many. False: not known yet."""
        counts = [(each, await self._count(each)) for each in audience]
        few = [(each.request, count) for each, count in counts if count.found < each.needed]
        certain = [(request, count) for request, count in few if not count.unknown]
        for line, found in (
            (requests.MISSING, [request for request, count in certain if not count.uncounted]),
            (requests.UNCOUNTED, [request for request, count in certain if count.uncounted]),
        ):
            if found and self.admin is not None:
                log.warning(
                    "too few people can still approve"
                    if line == requests.MISSING
                    else "reviewers not counted",
                    action="request.unreviewable",
                    request_id=str(found[0].id),
                    revision=found[0].revision,
                    more=len(found) - 1,
                )
                needed = audience[0].needed
                await requests.report_missing_reviewers(self._db, found, self.admin, needed, line)
        return len(certain) == len(few)

    async def _count(self, waiting: _Waiting) -> ReviewerCount:
        request = waiting.request
        but = {*waiting.approved, *(each.person for each in request.excluded)}
        return await self._directory.count_reviewers(
            request.approvers, request.channel_id, but=but, enough=waiting.needed
        )


def _may_concern(slack_id: str, line: RequestLine) -> bool:
    """A person may be in any group."""
    if not slack_id or slack_id in line.approvers or slack_id.startswith(("U", "W")):
        return True
    return CHANNEL in line.approvers and line.channel_id == slack_id
