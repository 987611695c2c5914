"""What all routes share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from uuid import UUID

from fastapi import Request

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.domain.webhook_urls import Network
from agent.runtime.services import Services
from agent.store import views
from agent.usecases.calls import program_claims
from agent.usecases.joint_reads import JointRead
from agent.usecases.requests import Votes
from agent.usecases.waves import Wave
from slackbot.cards.command_names import DEFAULT_NAMES, CommandNames
from slackbot.slack_api.connection import SlackConnection
from slackbot.slack_api.openid import OpenID
from slackbot.web.http.places import Places
from slackbot.web.http.problems import retry_later
from slackbot.web.http.watch import ChangeWatch

MANY = 100_000
"""Places where nothing limits them."""

MAX_EXCHANGES = 4
"""Sign-ins with Slack whose tokens are fetched at once."""


def request_snapshots(db: Database) -> JointRead[UUID, RequestView]:
    """Return a joint read of requests, by id."""

    async def read(request_ids: Sequence[UUID]) -> dict[UUID, RequestView]:
        return {view.id: view for view in await db.read(views.request_views, request_ids)}

    return JointRead(read)


@dataclass(frozen=True)
class WebContext:
    """``public_url``: no trailing slash. ``webhook_networks``: allowed although normally refused."""

    db: Database
    services: Services
    votes: Votes
    slack_or_none: Callable[[], SlackConnection | None]
    watch: ChangeWatch
    public_url: str | None = None
    openid: OpenID | None = None
    webhook_networks: tuple[Network, ...] = ()
    cors_origins: tuple[str, ...] = ()
    """Their pages may call the API."""
    commands: CommandNames = DEFAULT_NAMES
    places: Places = field(default_factory=lambda: Places(MANY))

    @cached_property
    def list_turns(self) -> dict[str, asyncio.Lock]:
        """One lock per key, held while its list is built."""
        return {}

    @cached_property
    def exact_count(self) -> asyncio.Lock:
        """Held during an exact count, which reads every entry."""
        return asyncio.Lock()

    @cached_property
    def token_exchanges(self) -> asyncio.Semaphore:
        """Held during the calls to Slack that a return from Slack's sign-in page makes."""
        return asyncio.Semaphore(MAX_EXCHANGES)

    @cached_property
    def snapshots(self) -> JointRead[UUID, RequestView]:
        return request_snapshots(self.db)

    @cached_property
    def hand_overs(self) -> Wave[UUID, datetime | None]:
        return Wave(partial(program_claims.hand_over_together, self.db), key=lambda request_id: request_id)

    @property
    def slack(self) -> SlackConnection:
        """Needed to check rights. Raises ProblemRaised (503) until it exists."""
        connected = self.slack_or_none()
        if connected is None:
            words = (
                "Slack has not been reached yet, so nobody can be asked and nobody's rights can be checked."
            )
            raise retry_later("slack-away", "Slack cannot be reached", words, 5)
        return connected


def web_context(request: Request) -> WebContext:
    """Return what all routes share, from the application that serves this request."""
    ctx: WebContext = request.app.state.ctx
    return ctx
