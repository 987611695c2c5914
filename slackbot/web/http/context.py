"""What all routes share, with reads of requests in batches: many callers wake at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from uuid import UUID

from fastapi import Request

from agent.database.background import start_task
from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.domain.webhook_urls import Network
from agent.runtime.services import Services
from agent.store import views
from agent.usecases.calls import program_claims
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


class RequestSnapshots:
    """Reads all requested ids with one query that starts after the last caller asked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asked: dict[UUID, asyncio.Future[RequestView | None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, request_id: UUID) -> RequestView | None:
        """The state after this call; ``None``: no such request. Raises what reading raises."""
        if not self._asked:
            task = start_task(self._read(), "views")
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        future = self._asked.get(request_id)
        if future is None:
            future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)  # one caller's disconnect must not cancel the others

    async def _read(self) -> None:
        """Starts after all callers woken with the first have asked."""
        asked, self._asked = self._asked, {}
        try:
            found = {view.id: view for view in await self._db.read(views.request_views, list(asked))}
        except Exception as error:  # each caller handles it
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # retrieved, in case every caller has disconnected
            return
        except BaseException:
            for future in asked.values():
                future.cancel()
            raise
        for request_id, future in asked.items():
            future.set_result(found.get(request_id))


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
    def snapshots(self) -> RequestSnapshots:
        return RequestSnapshots(self.db)

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
