"""A person given on the command line, in a workspace that may have to be named."""

from __future__ import annotations

import asyncio
import re

import typer

from agent.domain.errors import DOUBTFUL
from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.settings import Settings

_USER = re.compile(r"(?:(T[A-Z0-9]{2,})/)?([UW][A-Z0-9]{2,})\Z")


def read_person(configured: Settings, given: str, team: str | None, option: str) -> Person:
    """A person (U…, or T…/U…) and --team. Raises SignoffError."""
    match = _USER.match(given)
    if match is None:
        raise typer.BadParameter("must be a Slack user id: U… (or T…/U…)", param_hint=option)
    named = match[1] or team
    if team is not None and named != team:
        raise typer.BadParameter(f"is another workspace than that of {option}", param_hint="--team")
    return asyncio.run(_member(configured, match[2], named))


async def _member(configured: Settings, user_id: str, named: str | None) -> Person:
    """Under our workspace's id, as clicks are counted; as named only without SLACK_BOT_TOKEN. Raises SignoffError.

    Under another id, a person would not be the one whom their own requests exclude.
    """
    from slackbot.slack_api.client import SlackClient, SlackError  # noqa: PLC0415 - slow to import
    from slackbot.slack_api.directory import Directory  # noqa: PLC0415
    from slackbot.slack_api.workspace import identify  # noqa: PLC0415

    if configured.slack_bot_token is None:
        if named is not None:
            return Person(named, user_id)
        raise SignoffError(
            "which workspace is that user in? Give --team T…, or set SLACK_BOT_TOKEN so that Slack can be asked"
        )
    client = SlackClient(configured.slack_bot_token.get_secret_value(), configured.slack_api_url)
    try:
        home = await identify(client)
    except SlackError as error:
        raise SignoffError(
            f"Slack did not confirm the workspace of {user_id}: {error.reason}; try again"
        ) from None
    directory = Directory(client, home.team_id, home.bot_user_id, budget=10.0)
    standing = await directory.member(Person(named or home.team_id, user_id))
    if standing.refusal in DOUBTFUL:
        raise SignoffError(
            f"Slack did not confirm that {standing.person} is a member; try again, or ask `signoff doctor`"
        )
    if (
        standing.person.team_id != home.team_id
        and (await directory.member(Person(home.team_id, user_id))).refusal is None
    ):
        raise SignoffError(f"{user_id} is a member of {home.team_id}, not of {named}: write {user_id} alone")
    return standing.person
