"""The Slack workspace of a process, from `auth.test`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from agent.domain.errors import NotFound
from signoff.errors import SignoffError
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.error_codes import Meaning

log = structlog.get_logger(__name__)

BACKOFF = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between attempts; the last one repeats."""


class SlackRejected(SignoffError):
    """Slack rejects a token, with its ``code``; retrying will not help."""

    def __init__(self, words: str, code: str = "") -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class Workspace:
    """A Slack workspace with our bot in it, as `auth.test` names them; `team` is the name."""

    team_id: str
    team: str
    bot_user_id: str
    bot_id: str


@contextmanager
def token_of(setting: str) -> Iterator[None]:
    """SlackRejected says which setting has the bad token."""
    try:
        yield
    except SlackRefused as error:
        if error.meaning is not Meaning.TOKEN:
            raise
        raise SlackRejected(f"Slack rejects {setting} ({error.reason})", error.code) from None


async def identify(client: SlackClient) -> Workspace:
    """Raises SlackRejected and SlackError."""
    with token_of("SLACK_BOT_TOKEN"):
        answer = await client.auth_test()
    try:
        return Workspace(
            team_id=answer["team_id"],
            team=answer.get("team") or answer["team_id"],
            bot_user_id=answer["user_id"],
            bot_id=answer["bot_id"],
        )
    except KeyError as error:
        raise SlackRejected(f"SLACK_BOT_TOKEN is not a bot's token: auth.test returns no {error}") from None


async def find_channel(client: SlackClient, directory: Directory, name: str) -> str:
    """A channel's id; warns if it cannot be used yet. Raises NotFound, SlackRejected and SlackError."""
    with token_of("SLACK_BOT_TOKEN"):
        channel_id = await directory.resolve_channel(name)
        try:
            answer = await client.conversations_info(channel=channel_id)
        except SlackRefused as error:
            if error.code == "channel_not_found":
                raise NotFound(f"There is no channel {name} that the bot can see.") from None
            raise
    channel = answer.get("channel") or {}
    if channel.get("is_archived") or not channel.get("is_member"):
        why = "it is archived" if channel.get("is_archived") else "the bot is not a member: invite it there"
        log.warning("no requests can be posted there yet", action="slack.channel", channel=name, because=why)
    return channel_id


async def group_members(client: SlackClient, groups: Iterable[str]) -> dict[str, list[str]]:
    """User ids, by user group. Raises SlackError."""
    found = {}
    for group in groups:
        found[group] = list((await client.usergroups_users_list(usergroup=group)).get("users") or [])
    return found


async def identify_until_known(client: SlackClient, then: Callable[[Workspace], Awaitable[None]]) -> None:
    """Ask until Slack answers, then continue. Raises SlackRejected, and what ``then`` raises."""
    for attempt in itertools.count():
        try:
            await then(await identify(client))
        except SlackError as error:
            pause = max(error.seconds, BACKOFF[min(attempt, len(BACKOFF) - 1)])
            log.warning(
                "Slack cannot be reached yet", action="slack.unreachable", error=str(error), retry_in=pause
            )
            await asyncio.sleep(pause)
        else:
            return
