"""Notify operators when too few people can still approve a request."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeAlias
from uuid import UUID

import structlog

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.people import CHANNEL
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_list import RequestKind, RequestLine, RequestOrder
from agent.domain.request_view import RequestView
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import requests
from signoff.values import Person
from slackbot.slack_api.directory import Directory, ReviewerCount

log = structlog.get_logger(__name__)

AGAIN = 30.0
"""Seconds until a retry if Slack or the database did not answer, which does not mean that reviewers are missing. Each
further retry waits twice as long."""

EVERY = 3600.0
"""Seconds between looks at all waiting requests: an event may be lost."""

PAGE = 200
MOST = 2000
"""Waiting requests of one look, the oldest."""


Audience: TypeAlias = tuple[tuple[str, ...], str, int]
"""Of requests that the same people may approve: approvers, channel, and how many have to."""

Look: TypeAlias = Callable[[Collection[Audience] | None], Coroutine[None, None, Collection[Audience]]]
"""Gets the audiences that are left, all for `None`; returns those that are still not known."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: RequestView | RequestLine
    needed: int
    approved: frozenset[Person]

    @property
    def audience(self) -> Audience:
        return tuple(self.request.approvers), self.request.channel_id, self.needed


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
            self._start(view.id, partial(self._look_at, view))

    def changed(self, slack_id: str) -> None:
        """Count for all that waits for this group or person, or in this channel."""
        if self.admin is not None:
            place = "" if slack_id.startswith(("U", "W")) else slack_id  # a person may be in any group
            self._start(place, partial(self._look_at_waiting, place))

    def look_if_due(self) -> None:
        if self.admin is not None and (self._looked_at is None or monotonic() - self._looked_at >= EVERY):
            self._looked_at = monotonic()
            self.changed("")

    async def finish(self) -> None:
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def stop(self) -> None:
        for look in self._looks.values():
            look.cancel()
        await self.finish()

    def _start(self, what: UUID | str, look: Look) -> None:
        if (earlier := self._looks.get(what)) is not None:
            earlier.cancel()
        task = self._looks[what] = start_task(self._until_counted(look), f"reviewers:{what}")
        task.add_done_callback(lambda done: self._forget(what, done))

    def _forget(self, what: UUID | str, look: asyncio.Task[None]) -> None:
        if self._looks.get(what) is look:
            del self._looks[what]

    async def _until_counted(self, look: Look) -> None:
        left = None
        for delay in self._delays():
            try:
                left = await look(left)
            except Exception as error:  # an unknown error must not report reviewers as missing
                log_failure("reviewers not counted yet", error, action="reviewers.failed")
            else:
                if not left:
                    return
            await asyncio.sleep(delay)

    def _delays(self) -> Iterator[float]:
        delay = self._again
        while True:
            yield delay
            delay = min(2 * delay, EVERY)

    async def _look_at(self, view: RequestView, left: Collection[Audience] | None) -> Collection[Audience]:
        current = view if left is None else await self._db.read(views.request_view, view.id)
        if current is None or current.status is not RequestStatus.WAITING:
            return []
        approved = frozenset(vote.person for vote in current.votes if vote.verdict is Verdict.APPROVE)
        waiting = _Waiting(current, current.approvals_required - len(approved), approved)
        return [] if await self._report([waiting]) else [waiting.audience]

    async def _look_at_waiting(
        self, slack_id: str, left: Collection[Audience] | None
    ) -> Collection[Audience]:
        found = defaultdict[Audience, list[_Waiting]](list)
        for line in await self._waiting():
            if _may_concern(slack_id, line):
                needed = line.approvals_required - line.approvals
                waiting = _Waiting(line, needed, frozenset(line.voters))
                found[waiting.audience].append(waiting)
        asked = found if left is None else found.keys() & left
        return [each for each in asked if not await self._report(found[each])]

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
        missing: list[RequestView | RequestLine] = []
        uncounted: list[RequestView | RequestLine] = []
        known = True
        for each in audience:
            count = await self._count(each)
            if count.found >= each.needed:
                continue
            if count.unknown:  # the next ones would be, too
                known = False
                break
            (uncounted if count.uncounted else missing).append(each.request)
        for line, found in ((requests.MISSING, missing), (requests.UNCOUNTED, uncounted)):
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
        return known

    async def _count(self, waiting: _Waiting) -> ReviewerCount:
        request = waiting.request
        but = {*waiting.approved, *(each.person for each in request.excluded)}
        return await self._directory.count_reviewers(
            request.approvers, request.channel_id, but=but, enough=waiting.needed
        )


def _may_concern(slack_id: str, line: RequestLine) -> bool:
    """``slack_id``: of a group or channel; "" for all."""
    if not slack_id or slack_id in line.approvers:
        return True
    return CHANNEL in line.approvers and line.channel_id == slack_id
