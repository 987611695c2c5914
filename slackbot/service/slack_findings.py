"""What `signoff doctor` finds in Slack: tokens, scopes, cards, channels, user groups."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agent.domain.errors import NotFound
from agent.domain.policy import Policy
from agent.runtime.checks.policy_lint import few_reviewers
from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.cards.command_names import CommandNames
from slackbot.service.findings import Finding
from slackbot.service.sample_cards import sample_cards
from slackbot.settings import Settings
from slackbot.slack_api import manifest
from slackbot.slack_api.client import RateLimited, SlackClient, SlackError, SlackRefused, SlackUnavailable
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.error_codes import Meaning
from slackbot.slack_api.workspace import SlackRejected, Workspace, group_members, identify

MAX_SKEW = 60.0
"""Seconds from Slack's clock; Slack's requests older than five minutes are refused."""


async def find_in_slack(configured: Settings, policy: Policy) -> AsyncIterator[Finding]:
    """Yield findings about token, scopes, clock, connection, cards, channels and groups in Slack."""
    if configured.slack_bot_token is None:
        yield Finding("Slack", False, "SLACK_BOT_TOKEN is not set", "install the app and set its bot token")
        return
    client = SlackClient(configured.slack_bot_token.get_secret_value(), configured.slack_api_url)
    try:
        home = await identify(client)
    except SignoffError as error:
        yield Finding("bot token", False, str(error), _slack_remedy(error, _BOT_TOKEN))
        return
    yield Finding("bot token", True, f"workspace {home.team} ({home.team_id})")
    try:
        headers = (await client.auth_test()).headers
    except SlackError as error:
        yield Finding(
            "scopes", False, f"Slack did not return them ({error})", _slack_remedy(error, "try again")
        )
    else:
        yield _scopes(headers)
        yield _clock(headers)
    yield await _check_connection(configured)
    yield _commands(configured.commands)
    yield await _cards(client, home)
    directory = Directory(client, home.team_id, home.bot_user_id, budget=10.0)
    for name in sorted(_channels(configured, policy)):
        yield await _channel(directory, name)
    members: dict[str, list[str]] = {}
    for group in sorted(_groups(policy)):
        yield await _group(client, group, members)
    if few := "; ".join(sentence for _, sentence in few_reviewers(policy, members)):
        yield Finding("reviewers", True, few)  # they can still review


_BOT_TOKEN = "copy the bot token (xoxb-…) again from the app's page, OAuth & Permissions"  # noqa: S105 - no password
_APP_TOKEN = "create an app-level token with connections:write, and turn on Socket Mode"  # noqa: S105 - no password
_CODES = {
    "account_inactive": "install the app in the workspace again, then copy its new token",
    "token_revoked": "install the app in the workspace again, then copy its new token",
    "token_expired": "turn off token rotation, install the app again, and copy its new token",
    "missing_scope": "add the scope under OAuth & Permissions (or paste `signoff manifest`), then reinstall the app",
    "ekm_access_denied": "administrators have to let the app in again",
}
"""Remedies by Slack's error code."""


def _slack_remedy(error: Exception, otherwise: str) -> str:
    """``otherwise``: of a refusal without a remedy of its own."""
    match error:
        case RateLimited():
            return f"try again in {max(1, round(error.seconds))} s"
        case SlackUnavailable() if error.status:
            return "Slack has trouble (https://slack-status.com): try again"
        case SlackUnavailable() | TimeoutError():
            return "let this machine reach Slack: check DNS, proxy, firewall and SLACK_API_URL"
        case SlackRefused() | SlackRejected():
            return _CODES.get(error.code, otherwise)
        case _:
            return otherwise


def _scopes(headers: Any) -> Finding:
    granted = {scope.strip() for scope in str(headers.get("x-oauth-scopes") or "").split(",")}
    missing = sorted(set(manifest.bot_scopes()) - granted)
    if missing:
        remedy = "add them under OAuth & Permissions (or paste `signoff manifest`), then reinstall the app"
        return Finding("scopes", False, f"missing: {', '.join(missing)}", remedy)
    return Finding("scopes", True, "all scopes of the manifest")


def _clock(headers: Any) -> Finding:
    try:
        theirs = parsedate_to_datetime(str(headers.get("date"))).timestamp()
    except (TypeError, ValueError):
        return Finding("clock", True, "Slack returned no time")
    skew = abs(time.time() - theirs)
    if skew > MAX_SKEW:
        return Finding("clock", False, f"{skew:.0f} s apart from Slack's", "set the clock (NTP)")
    return Finding("clock", True, f"within {max(skew, 1.0):.0f} s of Slack's")


async def _check_connection(configured: Settings) -> Finding:
    if configured.slack_app_token is None:
        if configured.slack_signing_secret is None:
            remedy = "set SLACK_APP_TOKEN for Socket Mode, or SLACK_SIGNING_SECRET for HTTP"
            return Finding("way in", False, "neither Socket Mode nor HTTP is configured", remedy)
        return Finding("way in", True, "signed HTTP at /slack/events")
    token = configured.slack_app_token.get_secret_value()
    try:
        await SlackClient(token, configured.slack_api_url).apps_connections_open(app_token=token)
    except SlackError as error:
        return Finding("way in", False, f"Socket Mode: {error.reason}", _slack_remedy(error, _APP_TOKEN))
    return Finding("way in", True, "Socket Mode")


def _commands(names: CommandNames) -> Finding:
    """Slack tells a bot token nothing of them."""
    said = f"{names.agent} and {names.approvals}, as `signoff manifest` has them"
    return Finding("commands", True, f"{said}; Slack gives a name to the app that was installed last")


async def _cards(client: SlackClient, home: Workspace) -> Finding:
    """Slack's own check of each kind of message; it posts nothing."""
    samples = list(sample_cards(Person(home.team_id, home.bot_user_id), "C0SAMPLE", datetime.now(UTC)))
    refused: dict[str, str] = {}
    said = f"Slack accepts all {len(samples)} kinds of messages"
    for kind, card in samples:
        try:
            await client.api_call("blocks.validate", json={"blocks": card.blocks})
        except SlackRefused as error:
            if error.meaning is not Meaning.MESSAGE:
                said = f"Slack does not check them here ({error.code})"
                break
            refused[kind] = error.code
        except SlackError as error:
            said = f"Slack did not check them ({error})"
            break
    if refused:
        named = "; ".join(f"{kind} ({code})" for kind, code in refused.items())
        remedy = "they are sent in a plain form; upgrade Signoff, or report it as a bug"
        return Finding("cards", False, f"Slack refuses {named}", remedy)
    return Finding("cards", True, said)


async def _channel(directory: Directory, name: str) -> Finding:
    part = f"channel {name}"
    try:
        problem = await directory.channel_problem(await directory.resolve_channel(name))
    except NotFound as error:
        return Finding(part, False, str(error), "fix its name; invite the bot to a private channel first")
    except (SlackError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        return Finding(part, False, f"could not be looked up ({why})", _slack_remedy(error, "try again"))
    if problem is not None:
        return Finding(part, False, problem, "invite the bot, or choose a channel of your own workspace")
    return Finding(part, True, "the bot is a member, and it is not shared")


async def _group(client: SlackClient, group: str, members: dict[str, list[str]]) -> Finding:
    part = f"user group {group}"
    try:
        members |= await group_members(client, [group])
    except SlackError as error:
        remedy = _slack_remedy(error, "fix its id in the checkpoints file")
        return Finding(part, False, error.reason, remedy)
    if not members[group]:
        return Finding(part, False, "has no members", "add reviewers to it in Slack")
    return Finding(part, True, f"{len(members[group])} members")


def _channels(configured: Settings, policy: Policy) -> set[str]:
    return {*policy.channels, *([configured.channel] if configured.channel else [])}


def _groups(policy: Policy) -> set[str]:
    terms = [policy.defaults, *policy.rules]
    named = {name for each in terms for name in (*each.approvers, *each.notify, *each.escalate_to)}
    return {name for name in named if name.startswith("S")}
