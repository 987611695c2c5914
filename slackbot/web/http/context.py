"""What the HTTP side needs from the rest of the house, and what it knows of Slack once Slack has been reached."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from uuid import UUID

from fastapi import Request

from agent.database.pools import Database
from agent.domain.webhook_urls import Network
from agent.runtime.services import Services
from agent.runtime.votes import Votes
from agent.runtime.waves import Wave
from agent.usecases.executions import external
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.openid import OpenID
from slackbot.slack_api.permalinks import Permalinks
from slackbot.web.http.problems import retry_later
from slackbot.web.http.request_snapshots import RequestSnapshots
from slackbot.web.http.watch import ChangeWatch


@dataclass(frozen=True, slots=True)
class SlackConnection:
    """What is known since Slack told us who we are: people can be looked up, and cards posted."""

    team_id: str
    directory: Directory
    client: SlackClient
    permalinks: Permalinks


@dataclass(frozen=True)
class WebContext:
    """What a route may use. ``public_url``: no slash behind. ``webhook_networks``: open though barred."""

    db: Database
    services: Services
    votes: Votes
    slack_or_none: Callable[[], SlackConnection | None]
    watch: ChangeWatch
    public_url: str | None = None
    openid: OpenID | None = None
    webhook_networks: tuple[Network, ...] = ()
    cors_origins: tuple[str, ...] = ()
    """Whose pages may call the API."""

    @cached_property
    def list_turns(self) -> dict[str, asyncio.Lock]:
        """Held by each key while a list is made for it."""
        return {}

    @cached_property
    def exact_count(self) -> asyncio.Lock:
        """Held while one list is counted to its end: that reads every entry, so no two do it at once."""
        return asyncio.Lock()

    @cached_property
    def streams(self) -> Counter[str]:
        """How many streams of events each key has open."""
        return Counter()

    @cached_property
    def snapshots(self) -> RequestSnapshots:
        """Requests, read once for all who ask at the same moment."""
        return RequestSnapshots(self.db)

    @cached_property
    def hand_overs(self) -> Wave[UUID, datetime | None]:
        """Writes that askers have read approvals, together for all who are told at the same moment."""
        return Wave(partial(external.hand_over_together, self.db), key=lambda request_id: request_id)

    @property
    def slack(self) -> SlackConnection:
        """Slack, without which nobody's rights can be known. Raises ProblemRaised (503) until it is reached."""
        connected = self.slack_or_none()
        if connected is None:
            words = (
                "Slack has not been reached yet, so nobody can be asked and nobody's rights can be checked."
            )
            raise retry_later("slack-away", "Slack cannot be reached", words, 5)
        return connected


def web_context(request: Request) -> WebContext:
    """The site that serves this call."""
    ctx: WebContext = request.app.state.ctx
    return ctx
