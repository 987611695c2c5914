"""The sender: tells each target what is due, the targets at once, each in its own time.

A job only points here, so a receiver that is slow holds up neither a queue nor another receiver. What is sent is
drawn from the facts at that moment, without secrets.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import structlog

from agent import notices
from agent.domain.notices import Notice
from slackbot import secrets, tasks
from slackbot.notices.content import content, view_of
from slackbot.notices.mail import Mailer, message
from slackbot.notices.outcome import Never, NotNow
from slackbot.notices.post import Poster
from slackbot.web.shapes import page_url
from slackbot.web.site import Site

log = structlog.get_logger(__name__)

AT_ONCE = 10
"""How many notices one target is sent at the same time."""


class Sender:
    """Sends notices in this process. Without a mailer, mail is kept until there is one."""

    def __init__(self, site: Site, poster: Poster, mailer: Mailer | None = None) -> None:
        self._site = site
        self._db = site.db
        self._poster = poster
        self._mailer = mailer
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._stopping = False

    def look(self, target: str) -> None:
        """Begin to tell this target what is due, unless that is under way; then it looks once more."""
        if target in self._tasks:
            self._again.add(target)
        elif not self._stopping:
            task = self._tasks[target] = asyncio.create_task(self._empty(target), name=f"notices:{target}")
            task.add_done_callback(lambda _: self._tasks.pop(target, None))

    async def stop(self, seconds: float) -> None:
        """Take nothing more, and let what is under way arrive within so many seconds."""
        self._stopping = True
        await tasks.end(self._tasks.values(), seconds)
        await self._poster.close()

    async def _empty(self, target: str) -> None:
        try:
            while not self._stopping:
                self._again.discard(target)
                taken = await notices.take(self._db, target, AT_ONCE)
                told = await asyncio.gather(*(self._tell(notice) for notice in taken))
                if taken and not any(told):
                    return  # it takes nothing now: the sweep brings the rest
                if not taken and target not in self._again:
                    return
        except Exception as error:  # the database: the notices are taken again when their lease is over
            log.warning(
                "notices are put off", action="notice.interrupted", error=str(error) or type(error).__name__
            )

    async def _tell(self, notice: Notice) -> bool:
        """One attempt, and what became of it. True: it has arrived."""
        try:
            await self._send(notice)
        except Never as never:
            await self._give_up(notice, str(never))
        except NotNow as later:
            await self._put_off(notice, str(later), later.seconds)
        except Exception as error:  # a mistake of ours about one notice must not stop the others
            log.exception("a notice could not be made", action="notice.broken", **_names(notice))
            await self._put_off(notice, f"{type(error).__name__}: {error}"[:300], None)
        else:
            return await notices.sent(self._db, notice)
        return False

    async def _put_off(self, notice: Notice, words: str, asked: float | None) -> None:
        error = await secrets.clean_text(words)
        seconds = notices.pause(notice.attempts, asked, random.random())  # noqa: S311 - spreads attempts, no secret
        if await notices.put_off(self._db, notice, seconds, error):
            log.error("a notice was given up", action="notice.dead", error=error, **_names(notice))
        else:
            log.warning("a notice was put off", action="notice.postponed", error=error, **_names(notice))

    async def _give_up(self, notice: Notice, words: str) -> None:
        error = await secrets.clean_text(words)
        log.error("a notice was given up", action="notice.dead", error=error, **_names(notice))
        await notices.give_up(self._db, notice, error)

    async def _send(self, notice: Notice) -> None:
        """Raises NotNow and Never."""
        if notice.webhook is not None:
            await self._poster.post(notice, notice.webhook, await content(self._site, notice))
        elif notice.recipient is not None:
            await self._mail(notice, notice.recipient)

    async def _mail(self, notice: Notice, recipient: str) -> None:
        view = await view_of(self._db, notice.request_id)
        url = page_url(self._site.public_url, view.id) if view else None
        if view is None or view.decision is not None:
            return  # nobody needs to look any more
        if self._mailer is None or url is None:
            raise NotNow("no mail server and public address are set: SIGNOFF_SMTP_URL, SIGNOFF_PUBLIC_URL")
        shown = await secrets.clean_view(view)
        await self._mailer.send(message(notice, recipient, shown, url, self._mailer.sender))


def _names(notice: Notice) -> dict[str, Any]:
    return {
        "notice": str(notice.id),
        "about": notice.event.value,
        "webhook": notice.webhook.name if notice.webhook else None,
        "request": str(notice.request_id) if notice.request_id else None,
        "run": str(notice.run_id) if notice.run_id else None,
    }
