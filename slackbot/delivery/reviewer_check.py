"""Notify operators when too few people can still approve a request."""

from __future__ import annotations

import asyncio
from uuid import UUID

import structlog

from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import requests
from slackbot.slack_api.directory import Directory

log = structlog.get_logger(__name__)

AGAIN = 30.0
"""Seconds until a retry if Slack or the database did not answer, which does not mean that reviewers are missing."""


class ReviewerCheck:
    """Counts reviewers in the background, for each request whose card is drawn."""

    def __init__(
        self, db: Database, directory: Directory, admin: Destination | None, *, again: float = AGAIN
    ) -> None:
        self._db = db
        self._directory = directory
        self.admin = admin
        self._again = again
        self._looks: dict[UUID, asyncio.Task[None]] = {}

    def begin(self, view: RequestView) -> None:
        if self.admin is None or view.status is not RequestStatus.WAITING:
            return
        if (earlier := self._looks.get(view.id)) is not None:
            earlier.cancel()
        look = asyncio.create_task(self._look(view, self.admin), name=f"reviewers:{view.id}")
        self._looks[view.id] = look
        look.add_done_callback(lambda done: self._forget(view.id, done))

    async def finish(self) -> None:
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def stop(self) -> None:
        for look in self._looks.values():
            look.cancel()
        await self.finish()

    def _forget(self, request_id: UUID, look: asyncio.Task[None]) -> None:
        if self._looks.get(request_id) is look:
            del self._looks[request_id]

    async def _look(self, view: RequestView, admin: Destination) -> None:
        seen: RequestView | None = view
        while seen is not None and seen.status is RequestStatus.WAITING:
            try:
                if await self._is_handled(seen, admin):
                    return
                await asyncio.sleep(self._again)
                seen = await self._db.read(views.request_view, view.id)
            except Exception as error:  # an unknown error must not report reviewers as missing
                log_failure("reviewers not counted yet", error, action="reviewers.failed")
                await asyncio.sleep(self._again)

    async def _is_handled(self, view: RequestView, admin: Destination) -> bool:
        approved = [vote.person for vote in view.votes if vote.verdict is Verdict.APPROVE]
        needed = view.approvals_required - len(approved)
        excluded = [each.person for each in view.excluded]
        found = await self._directory.count_reviewers(
            view.approvers, view.channel_id, but={*approved, *excluded}, enough=needed
        )
        if found is None:
            return False
        if found < needed:
            log.warning(
                "too few people can still approve",
                action="request.unreviewable",
                request_id=str(view.id),
                revision=view.revision,
            )
            await requests.report_missing_reviewers(self._db, view, admin, needed)
        return True
