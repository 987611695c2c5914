"""What all listeners share, and work that no acknowledgement waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar

from agent.database.background import start_task
from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.runtime import shutdown
from agent.runtime.agents import Registry
from agent.runtime.services import Services
from agent.usecases.requests import Votes
from slackbot.cards import Card
from slackbot.cards.command_names import DEFAULT_NAMES, CommandNames
from slackbot.reviewing.votes import BUDGET
from slackbot.slack.app_home import AppHomes
from slackbot.slack_api.client import SlackClient, SlackError
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.permalinks import Permalinks

log = logging.getLogger(__name__)

ARRIVED: ContextVar[float] = ContextVar("arrived")
"""When Slack's payload came, before any look-up of ours: Slack's three seconds run from then."""


def log_failed(event: str, error: Exception) -> None:
    """With a traceback, unless the database is the cause."""
    if isinstance(error, DatabaseError):
        log_failure(event, error, action="listener_failed")
    else:
        extra = {"action": "listener_failed", "kind": type(error).__name__}
        log.error(event, exc_info=error, extra=extra)


class BackgroundTasks:
    """Work that no acknowledgement waits for, and whose failure changes nothing."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """A failure is logged, never raised."""
        task = start_task(self._log_errors(work), "reply")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, seconds: float = 2.0) -> None:
        """Slow work is dropped after ``seconds``."""
        await shutdown.end_tasks(self._tasks, seconds)

    async def _log_errors(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except DatabaseError as error:
            log_failure("an ephemeral reply failed", error, action="aside_failed")
        except Exception as error:
            log.warning(
                "an ephemeral reply failed: %s", type(error).__name__, extra={"action": "aside_failed"}
            )


@dataclass(frozen=True)
class ListenerContext:
    """`budget`: seconds from payload to answer; `invitation`: a personal link from its secret."""

    db: Database
    directory: Directory
    client: SlackClient
    services: Services
    votes: Votes
    homes: AppHomes
    permalinks: Permalinks
    budget: ClassVar[float] = BUDGET
    invitation: Callable[[str], str] | None = None
    reviewers_changed: Callable[[str], None] = lambda _: None
    """Takes the id of a group, channel or person."""
    commands: CommandNames = DEFAULT_NAMES
    background: BackgroundTasks = field(default_factory=BackgroundTasks)

    def in_budget(self) -> asyncio.Timeout:
        return asyncio.timeout(ARRIVED.get() + self.budget - monotonic())

    @property
    def agents(self) -> Registry:
        return self.services.registry

    def reply_ephemeral(self, body: Mapping[str, Any], text: str) -> None:
        """Reply only to the person who acted, where they acted."""
        self.background.start(self._reply_ephemeral(body, text))

    def post(self, channel_id: str, card: Card, thread_ts: str | None = None) -> None:
        """For conversations of only the app and one person."""
        self.background.start(
            self.client.chat_postMessage(
                channel=channel_id,
                text=card.text,
                blocks=card.blocks or None,
                thread_ts=thread_ts,
                unfurl_links=False,
                unfurl_media=False,
            )
        )

    def post_ephemeral(self, channel_id: str, user_id: str, card: Card, thread_ts: str | None = None) -> None:
        """For events, which have no response_url."""
        self.background.start(
            self.client.chat_postEphemeral(
                channel=channel_id,
                user=user_id,
                text=card.text,
                blocks=card.blocks or None,
                thread_ts=thread_ts,
            )
        )

    async def _reply_ephemeral(self, body: Mapping[str, Any], text: str) -> None:
        """Slack puts a `response_url` reply to a message with a thread into that thread, where nobody looks."""
        if (pressed := body.get("message")) is not None:
            above = pressed.get("thread_ts")
            place = {"channel": body["channel"]["id"], "thread_ts": above if above != pressed["ts"] else None}
            try:
                await self.client.chat_postEphemeral(user=body["user"]["id"], text=text, **place)
            except SlackError:
                log.info("an answer goes to the response_url", extra={"action": "ephemeral_refused"})
            else:
                return
        url = body["response_url"]
        await self.client.respond(url, text=text, response_type="ephemeral", replace_original=False)
