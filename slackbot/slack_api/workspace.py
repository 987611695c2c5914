"""The one Slack workspace that a process works for: who we are there, learned from `auth.test`, kept trying."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from agent.domain.errors import NotFound
from signoff.errors import SignoffError
from slackbot.masking.slack_payloads import CleanClient
from slackbot.slack_api.directory import Directory

log = structlog.get_logger(__name__)

TIMEOUT = 10
"""Seconds for one call to Slack."""

BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between attempts; the last one repeats."""

TOKEN_ERRORS = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "missing_scope",
        "no_permission",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
"""Answers that no waiting will change."""


class SlackRejected(SignoffError):
    """Slack does not accept the bot token; trying again will not help."""


class SlackUnreachable(SignoffError):
    """Slack did not answer, or not as Slack does; trying again may help, but not within ``seconds``."""

    def __init__(self, words: str, seconds: float = 0.0) -> None:
        super().__init__(words)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where our bot is at home."""

    team_id: str
    team: str
    bot_user_id: str
    bot_id: str


def new_client(token: str, api_url: str) -> AsyncWebClient:
    """A client without any retry of its own (a re-sent post would be a second card), which tells no secrets."""
    return CleanClient(token=token, base_url=api_url, timeout=TIMEOUT, retry_handlers=[])


@asynccontextmanager
async def translate_errors(client: AsyncWebClient) -> AsyncIterator[None]:
    """Around calls to Slack at the start: failures become SlackRejected (for good) or SlackUnreachable."""
    try:
        yield
    except SlackApiError as error:
        raise _understood(error.response) from None
    except (aiohttp.ClientError, TimeoutError, OSError, SlackClientError) as error:
        raise SlackUnreachable(f"cannot reach {client.base_url}: {type(error).__name__}") from None


def _understood(answer: Any) -> SlackRejected | SlackUnreachable:
    """`answer` is Slack's, or the HTTP library's own when its body could not be read."""
    data = getattr(answer, "data", None)
    code = str(data.get("error") or "") if isinstance(data, dict) else ""
    if code in TOKEN_ERRORS:
        needed = f" (it needs {data['needed']})" if isinstance(data, dict) and data.get("needed") else ""
        return SlackRejected(f"Slack rejects SLACK_BOT_TOKEN: {code}{needed}")
    asked = str((getattr(answer, "headers", None) or {}).get("Retry-After", ""))
    seconds = float(asked) if asked.isascii() and asked.isdigit() else 0.0
    status = getattr(answer, "status_code", "nothing readable")
    return SlackUnreachable(f"Slack answers {code or status}", seconds)


async def identify(client: AsyncWebClient) -> Workspace:
    """One `auth.test`. Raises SlackRejected and SlackUnreachable."""
    async with translate_errors(client):
        answer = await client.auth_test()
    try:
        return Workspace(
            team_id=answer["team_id"],
            team=answer.get("team") or answer["team_id"],
            bot_user_id=answer["user_id"],
            bot_id=answer["bot_id"],
        )
    except KeyError as error:
        raise SlackRejected(f"SLACK_BOT_TOKEN is not a bot's token: auth.test tells no {error}") from None


async def find_channel(client: AsyncWebClient, directory: Directory, name: str) -> str:
    """The id of a channel given as name or id. Raises NotFound, SlackRejected and SlackUnreachable.

    One that is there but cannot be used yet (we are not in it, it is archived) is warned about.
    """
    async with translate_errors(client):
        channel_id = await directory.resolve_channel(name)
        try:
            answer = await client.conversations_info(channel=channel_id)
        except SlackApiError as error:
            if isinstance(error.response.data, dict) and error.response["error"] == "channel_not_found":
                raise NotFound(f"There is no channel {name} that the bot can see.") from None
            raise
    channel = answer.get("channel") or {}
    if channel.get("is_archived") or not channel.get("is_member"):
        why = "it is archived" if channel.get("is_archived") else "the bot is not a member: invite it there"
        log.warning("nothing can be asked there yet", action="slack.channel", channel=name, because=why)
    return channel_id


async def identify_until_known(client: AsyncWebClient, then: Callable[[Workspace], Awaitable[None]]) -> None:
    """Ask until Slack answers, then go on. Raises SlackRejected, and what else ``then`` raises."""
    for attempt in itertools.count():
        try:
            await then(await identify(client))
        except SlackUnreachable as error:
            pause = max(error.seconds, BACK_OFF[min(attempt, len(BACK_OFF) - 1)])
            log.warning(
                "Slack cannot be reached yet", action="slack.unreachable", error=str(error), retry_in=pause
            )
            await asyncio.sleep(pause)
        else:
            return
