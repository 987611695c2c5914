"""What the HTTP side needs from the rest of the house, and what it knows of Slack once Slack has been reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from fastapi import Request
from slack_sdk.web.async_client import AsyncWebClient

from agent.domain.addresses import Network
from agent.runtime.services import Services
from agent.store.database import Database
from slackbot.identity import Directory
from slackbot.permalinks import Permalinks
from slackbot.web.openid import OpenID
from slackbot.web.problems import retry_later
from slackbot.web.views import Views
from slackbot.web.watch import Watch


@dataclass(frozen=True, slots=True)
class Connected:
    """What is known since Slack told us who we are: people can be looked up, and cards posted."""

    team_id: str
    directory: Directory
    client: AsyncWebClient
    permalinks: Permalinks


@dataclass(frozen=True)
class Site:
    """Everything that a route may use.

    ``public_url`` is our address as people reach it, without a slash behind. ``webhook_networks`` may be reached by
    webhooks although they are barred otherwise.
    """

    db: Database
    services: Services
    slack_or_none: Callable[[], Connected | None]
    watch: Watch
    public_url: str | None = None
    openid: OpenID | None = None
    webhook_networks: tuple[Network, ...] = ()

    @cached_property
    def views(self) -> Views:
        """Requests, read once for all who ask at the same moment."""
        return Views(self.db)

    @property
    def slack(self) -> Connected:
        """Slack, without which nobody's rights can be known. Raises ProblemRaised (503) until it is reached."""
        connected = self.slack_or_none()
        if connected is None:
            words = "Slack has not been reached yet, so nobody can be asked and nobody's rights can be known."
            raise retry_later("slack-away", "Slack cannot be reached", words, 5)
        return connected


def site_of(request: Request) -> Site:
    """The site that serves this call."""
    site: Site = request.app.state.site
    return site
