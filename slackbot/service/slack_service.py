"""The parts of a process that exist once Slack has identified us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.database.background import start_task
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services
from agent.store.outbox import Destination
from agent.usecases import admin_notices
from agent.usecases.requests import Votes
from signoff.errors import SignoffError
from slackbot.delivery.deleted_cards import find_deleted_cards
from slackbot.delivery.drain import Drain
from slackbot.delivery.poller import DeliveryPoller
from slackbot.settings import Role, Settings
from slackbot.slack_api.client import SlackClient, SlackError
from slackbot.slack_api.connection import SlackConnection
from slackbot.slack_api.directory import DIRECTORY, Directory
from slackbot.slack_api.permalinks import Permalinks
from slackbot.slack_api.workspace import Workspace, find_channel, identify, identify_until_known

if TYPE_CHECKING:
    from slackbot.slack.listening import Listening

log = structlog.get_logger(__name__)


CHANNELS_AGAIN = 10.0
"""Seconds until a new policy's channels are looked up again."""

HEAR_AGAIN = 1.0
"""Seconds until the next connection for changes in Slack."""


class NotConnected(SignoffError):
    """Slack has not identified us yet."""


class Listen(Protocol):
    """Makes the listeners of a workspace; ``reviewers_changed`` takes the id of a group, channel or person."""

    def __call__(
        self,
        workspace: Workspace,
        connection: SlackConnection,
        services: Services,
        votes: Votes,
        reviewers_changed: Callable[[str], None],
    ) -> Listening: ...


@dataclass(frozen=True)
class Parts:
    """A process's parts that exist once Slack has identified us; `listening` with the role `web` only."""

    workspace: Workspace
    connection: SlackConnection
    listening: Listening | None
    drain: Drain
    poller: DeliveryPoller


class SlackService:
    """A process's service in Slack: connects, in the background if Slack is away, and stops in steps."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        policies: PolicyInForce,
        worker: str,
        listen: Listen | None = None,
    ) -> None:
        """``listen``: for processes that hear from Slack."""
        self.parts: Parts | None = None
        self._settings = settings
        self._db = db
        self._policies = policies
        self._worker = worker
        self._listen = listen
        token = settings.slack_bot_token
        self._client = SlackClient(token.get_secret_value(), settings.slack_api_url) if token else None
        self._channels: dict[str, str] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def start(self, services: Services, votes: Votes, failed: asyncio.Future[None]) -> None:
        """Connect now, or in the background while Slack is away; a permanent error then goes to ``failed``.

        Raises SignoffError for a token that Slack rejects and a missing channel.
        """
        client = self._client
        if client is None:
            return
        client.keep_connections()
        build = partial(self._build, client, services, votes)
        try:
            await build(await identify(client))
        except SlackError as error:
            log.warning("Slack cannot be reached yet", action="slack.unreachable", error=str(error))
            self._connecting = asyncio.create_task(identify_until_known(client, build), name="slack")
            self._connecting.add_done_callback(partial(_report, failed))

    async def _build(
        self, client: SlackClient, services: Services, votes: Votes, workspace: Workspace
    ) -> None:
        """Build the parts, then accept Slack's requests. Raises SlackError, too."""
        settings = self._settings
        directory = Directory(client, workspace.team_id, workspace.bot_user_id)
        await self._find_channels(client, directory)
        inbox = f"{settings.public_url}/inbox" if settings.public_url else None
        drain = Drain(
            self._db, client, directory, self._worker, inbox=inbox, tell_requester=settings.tell_requester
        )
        drain.follow(*self._delivery_settings(workspace))
        connection = SlackConnection(workspace.team_id, directory, client, Permalinks(client))
        listening = None
        if self._listen is not None:
            listening = self._listen(workspace, connection, services, votes, drain.reviewers.changed)
        poller = DeliveryPoller(self._db, workspace.team_id, drain)
        self.parts = Parts(workspace, connection, listening, drain, poller)
        self._hearing = start_task(self._hear_changes(directory), "directory")
        self.follow()
        if listening is not None:
            await listening.start()
        if Role.WORKER in settings.roles:
            poller.start()
        log.info(
            "connected to Slack", action="slack.connected", team=workspace.team, team_id=workspace.team_id
        )

    async def _find_channels(self, client: SlackClient, directory: Directory) -> None:
        """Resolve channel names. Raises for a missing channel: it could hide a request from everybody."""
        for name, said_in in self._unknown_channels().items():
            await self._find_channel(client, directory, name, said_in)

    async def _hear_changes(self, directory: Directory) -> None:
        """Forget what Slack has told another process to have changed."""
        while True:
            try:
                async for slack_id in self._db.announcements(DIRECTORY):
                    if slack_id:
                        directory.forget(slack_id)
                    else:  # connected: what was announced before is lost
                        directory.forget_everything()
            except Exception as error:  # meanwhile answers are at most a minute old
                log_failure("changes in Slack are not heard of", error, action="directory.unheard")
            await asyncio.sleep(HEAR_AGAIN)

    async def check_reviewers(self, _: Database) -> int:
        """The hourly look at all waiting requests, once Slack has identified us."""
        if self.parts is not None:
            self.parts.drain.reviewers.look_if_due()
        return 0

    def _unknown_channels(self) -> dict[str, str]:
        """Names that are not resolved yet, and where each is set."""
        named = dict.fromkeys(self._policies.last_loaded.channels, str(self._settings.checkpoints))
        if self._settings.channel:
            named[self._settings.channel] = "SIGNOFF_CHANNEL"
        return {name: said_in for name, said_in in named.items() if name not in self._channels}

    async def _find_channel(self, client: SlackClient, directory: Directory, name: str, said_in: str) -> None:
        try:
            self._channels[name] = await find_channel(client, directory, name)
        except NotFound as error:
            raise SignoffError(f"{said_in}: {error}") from None

    def _delivery_settings(self, workspace: Workspace) -> tuple[Destination | None, int, int]:
        defaults = self._policies.last_loaded.defaults
        return self._admin_of(workspace), defaults.cards_per_minute, defaults.group_from

    def _admin_of(self, workspace: Workspace) -> Destination | None:
        channel = self._channels.get(self._policies.last_loaded.defaults.admin_channel or "")
        return Destination(workspace.team_id, channel) if channel else None

    def admin(self) -> Destination | None:
        return self._admin_of(self.parts.workspace) if self.parts else None

    def follow(self) -> None:
        if self.parts is None or self._client is None:
            return
        if self._following is not None:
            self._following.cancel()
        self._following = start_task(self._find_new(self._client, self.parts), "channels")

    async def _find_new(self, client: SlackClient, parts: Parts) -> None:
        """Find a policy's channels, each by itself; until then, nobody can be asked in those that are missing."""
        while True:
            for name, said_in in self._unknown_channels().items():
                try:
                    await self._find_channel(client, parts.connection.directory, name, said_in)
                except Exception as error:  # the next attempt may succeed
                    log.error(  # noqa: TRY400
                        "a channel of the policy cannot be used", action="policy.channel", error=str(error)
                    )
            parts.drain.follow(*self._delivery_settings(parts.workspace))
            noted = await self._note_admin_channel(parts.workspace)
            if noted and not self._unknown_channels():
                return
            await asyncio.sleep(CHANNELS_AGAIN)

    async def _note_admin_channel(self, workspace: Workspace) -> bool:
        """For commands, which know only its name. False: the next attempt may succeed."""
        policy, admin = self._policies.last_loaded, self._admin_of(workspace)
        if admin is None and policy.defaults.admin_channel:
            return True  # not found yet
        try:
            await admin_notices.follow(self._db, policy.epoch, admin)
        except Exception as error:
            log_failure("the operators' channel was not noted", error, action="policy.admin_channel")
            return False
        return True

    def destination(self, channel: str | None) -> Destination:
        """Raises NotConnected until Slack has identified us."""
        if self.parts is None:
            raise NotConnected("Slack has not been reached yet, so nobody can be asked")
        name = channel or self._policies.last_loaded.defaults.channel or self._settings.channel
        if name is None or name not in self._channels:
            raise NotConnected(f"no channel for requests ({name})")
        return Destination(self.parts.workspace.team_id, self._channels[name])

    def connection(self) -> SlackConnection | None:
        """``None`` until Slack has identified us."""
        return self.parts.connection if self.parts else None

    async def find_deleted_cards(self, db: Database) -> int:
        """Nothing until Slack has identified us."""
        if self.parts is None or self._client is None:
            return 0
        workspace = self.parts.workspace
        return await find_deleted_cards(db, self._client, workspace.team_id, workspace.bot_user_id)

    async def events(self, request: Request) -> Response:
        """Answer 503 until Slack has identified us: it retries."""
        if self.parts is None:
            return PlainTextResponse("", status_code=503)
        if self.parts.listening is None:
            return PlainTextResponse("", status_code=404)
        return await self.parts.listening.handle(request)

    @property
    def connections(self) -> int:
        """Of the database, besides the pools': it listens for changes in Slack."""
        return 0 if self._client is None else 1

    @property
    def health(self) -> str:
        if self._client is None:
            return "not configured"
        if self.parts is None:
            return "unreachable"
        if self.parts.listening is not None and (problem := self.parts.listening.problem):
            return problem
        return self.parts.drain.problem or "connected"

    @property
    def delivers(self) -> bool:
        """Whether polling works; true before Slack has been reached."""
        return self.parts is None or self.parts.poller.alive

    async def stop_connecting(self) -> None:
        await _end(self._connecting)

    async def stop_delivering(self) -> None:
        if self.parts is not None:
            await self.parts.poller.stop(self._settings.drain_seconds)

    async def stop_listening(self) -> None:
        """HTTP stops with its server."""
        if self.parts is not None and self.parts.listening is not None:
            await self.parts.listening.stop()

    async def finish(self) -> None:
        """After the last vote: until then, changes of its reviewers and channels count."""
        await _end(self._following, self._hearing)
        if self.parts is not None:
            if self.parts.listening is not None:
                await self.parts.listening.finish()
            await self.parts.drain.reviewers.stop()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


async def _end(*tasks: asyncio.Task[None] | None) -> None:
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


def _report(failed: asyncio.Future[None], connecting: asyncio.Task[None]) -> None:
    if not connecting.cancelled() and (error := connecting.exception()) and not failed.done():
        failed.set_exception(error)
