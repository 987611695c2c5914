"""Send due notices, drawn from the facts at that moment and masked, to all targets concurrently."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog

from agent.database.background import start_task
from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.outbound import OutboundMessage
from agent.domain.request_view import RequestView
from agent.runtime import shutdown
from agent.store import views
from agent.usecases import outbound
from signoff.description import bounded
from slackbot import masking
from slackbot.outbound.failures import RetryLater, Undeliverable
from slackbot.outbound.mail import Mailer, message
from slackbot.outbound.signed_post import WebhookPoster
from slackbot.reviewing.listing import without_secrets
from slackbot.slack_api.connection import SlackConnection
from slackbot.web.api.shapes import Moment, PersonOut, ResponseModel, page_url, review, rfc3339

log = structlog.get_logger(__name__)

AT_ONCE = 10
"""Concurrent notices per target."""

REST = 2.0
"""Seconds for which polls skip a target that accepts nothing."""


class RunOut(ResponseModel):
    """The current state of a run."""

    id: UUID
    agent: str
    above: list[str]
    agent_version: str
    label: str | None
    task: str
    status: str
    cause: str | None
    answer: str | None
    requester: PersonOut | None
    created_at: Moment
    updated_at: Moment


@dataclass(frozen=True)
class OutboundContext:
    """What notices are drawn with; ``public_url`` has no trailing slash."""

    db: Database
    slack_or_none: Callable[[], SlackConnection | None]
    public_url: str | None = None


async def content(ctx: OutboundContext, notice: OutboundMessage) -> dict[str, Any]:
    """Return the body that a webhook gets: the event, with its request and run as they are now, masked."""
    request = await view_of(ctx.db, notice.request_id)
    shown = await review(ctx, request) if request is not None else None
    run = await _run(ctx.db, notice.run_id)
    return {
        "id": str(notice.id),
        "event": notice.event.value,
        "created_at": rfc3339(notice.created_at),
        "request": shown.model_dump(mode="json") if shown is not None else None,
        "run": run.model_dump(mode="json") if run is not None else None,
    }


async def view_of(db: Database, request_id: UUID | None) -> RequestView | None:
    """Read the request of an outbound message; None without an id, or if the request is gone."""
    if request_id is None:
        return None
    return await db.read(views.request_view, request_id)


async def _run(db: Database, run_id: UUID | None) -> RunOut | None:
    if run_id is None:
        return None
    run = await db.read(views.run_view, run_id)
    return RunOut.copy_of((await without_secrets(db, [run]))[0]) if run else None


class OutboundSender:
    """Sends notices; e-mails wait until there is a mailer."""

    def __init__(self, ctx: OutboundContext, poster: WebhookPoster, mailer: Mailer | None = None) -> None:
        self._ctx = ctx
        self._db = ctx.db
        self._poster = poster
        self._mailer = mailer
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._resting: set[str] = set()
        self._stopping = False

    def look(self, target: str) -> None:
        """Start sending this target's notices, or poll once more if that is running."""
        if target in self._tasks:
            self._again.add(target)
        elif not self._stopping:
            task = self._tasks[target] = start_task(self._empty(target), f"notices:{target}")
            task.add_done_callback(lambda _: self._tasks.pop(target, None))

    def found(self, target: str) -> None:
        """Like `look`, unless the target has just accepted nothing."""
        if target not in self._resting:
            self.look(target)

    async def stop(self, seconds: float) -> None:
        """Running attempts may finish within ``seconds``."""
        self._stopping = True
        await shutdown.end_tasks(self._tasks.values(), seconds)
        await self._poster.close()

    async def _empty(self, target: str) -> None:
        try:
            while not self._stopping:
                self._again.discard(target)
                taken = await outbound.lease_due(self._db, target, AT_ONCE)
                outcomes = await asyncio.gather(*(self._tell(notice) for notice in taken))
                if taken and not any(outcomes):
                    self._rest(target)
                    return
                if not taken and target not in self._again:
                    return
        except Exception as error:  # the database: notices are taken again when their lease expires
            self._rest(target)
            log_failure("notices are postponed", error, action="notice.interrupted")

    def _rest(self, target: str) -> None:
        self._resting.add(target)
        asyncio.get_running_loop().call_later(REST, self._resting.discard, target)

    async def _tell(self, notice: OutboundMessage) -> bool:
        try:
            await self._send(notice)
        except Undeliverable as never:
            await self._give_up(notice, str(never))
        except RetryLater as later:
            await self._postpone(notice, str(later), later.seconds)
        except DatabaseError:
            raise  # the notice is taken again when its lease expires
        except Exception as error:  # our own error in one notice must not stop the others
            log.exception("a notice could not be created", action="notice.broken", **_names(notice))
            await self._postpone(notice, bounded(f"{type(error).__name__}: {error}", 300), None)
        else:
            return await outbound.mark_sent(self._db, notice)
        return False

    async def _postpone(self, notice: OutboundMessage, words: str, asked: float | None) -> None:
        error = await masking.clean_text(words)
        seconds = outbound.retry_delay(notice.attempts, asked, random.random())  # noqa: S311 - spreads attempts, no secret
        if await outbound.postpone(self._db, notice, seconds, error):
            log.error("a notice was given up", action="notice.dead", error=error, **_names(notice))
        else:
            log.warning("a notice was postponed", action="notice.postponed", error=error, **_names(notice))

    async def _give_up(self, notice: OutboundMessage, words: str) -> None:
        error = await masking.clean_text(words)
        log.error("a notice was given up", action="notice.dead", error=error, **_names(notice))
        await outbound.mark_dead(self._db, notice, error)

    async def _send(self, notice: OutboundMessage) -> None:
        """Raises RetryLater and Undeliverable."""
        if notice.webhook is not None:
            with masking.work_for("webhooks"):
                outcomes = await content(self._ctx, notice)
            await self._poster.post(notice, notice.webhook, outcomes)
        elif notice.recipient is not None:
            await self._mail(notice, notice.recipient)

    async def _mail(self, notice: OutboundMessage, recipient: str) -> None:
        view = await view_of(self._db, notice.request_id)
        url = page_url(self._ctx.public_url, view.id) if view else None
        if view is None or view.decision is not None:
            return
        if self._mailer is None or url is None:
            raise RetryLater(
                "no mail server and public address are set: SIGNOFF_SMTP_URL, SIGNOFF_PUBLIC_URL"
            )
        with masking.work_for("e-mail"):
            shown = await masking.clean_view(view)
        await self._mailer.send(message(notice, recipient, shown, url, self._mailer.sender))


def _names(notice: OutboundMessage) -> dict[str, Any]:
    return {
        "notice": str(notice.id),
        "about": notice.event.value,
        "webhook": notice.webhook.name if notice.webhook else None,
        "request": str(notice.request_id) if notice.request_id else None,
        "run": str(notice.run_id) if notice.run_id else None,
    }
