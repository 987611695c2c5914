"""The one Slack workspace that a process works for: who we are there, learned from `auth.test`, kept trying."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from agent.domain.errors import SignoffError
from slackbot.secrets import CleanClient

log = structlog.get_logger(__name__)

TIMEOUT = 10
"""Seconds for one call to Slack."""

BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between attempts; the last one repeats."""

TOKEN_ERRORS = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "no_permission"}
)


class SlackRejected(SignoffError):
    """Slack does not accept the bot token; trying again will not help."""


class SlackUnreachable(SignoffError):
    """Slack did not answer, or not as Slack does; trying again may help."""


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


async def ask_who_we_are(client: AsyncWebClient) -> Workspace:
    """One `auth.test`. Raises SlackRejected and SlackUnreachable."""
    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        code = error.response.get("error") if isinstance(error.response.data, dict) else None
        if code in TOKEN_ERRORS:
            raise SlackRejected(f"Slack rejects SLACK_BOT_TOKEN: {code}") from None
        raise SlackUnreachable(f"Slack answers {code or error.response.status_code}") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SlackUnreachable(f"cannot reach {client.base_url}: {type(error).__name__}") from None
    try:
        return Workspace(
            team_id=answer["team_id"],
            team=answer.get("team") or answer["team_id"],
            bot_user_id=answer["user_id"],
            bot_id=answer["bot_id"],
        )
    except KeyError as error:
        raise SlackRejected(f"SLACK_BOT_TOKEN is not a bot's token: auth.test tells no {error}") from None


async def keep_asking(client: AsyncWebClient, then: Callable[[Workspace], Awaitable[None]]) -> None:
    """Ask until Slack answers, then go on. Raises SlackRejected, and what ``then`` raises."""
    for attempt in range(1_000_000):
        try:
            workspace = await ask_who_we_are(client)
        except SlackUnreachable as error:
            pause = BACK_OFF[min(attempt, len(BACK_OFF) - 1)]
            log.warning(
                "Slack cannot be reached yet", action="slack.unreachable", error=str(error), retry_in=pause
            )
            await asyncio.sleep(pause)
            continue
        await then(workspace)
        return
