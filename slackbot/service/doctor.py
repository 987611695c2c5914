"""Check everything that the service needs. Changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, OpenAIError
from openai.types.chat import ChatCompletionUserMessageParam

from agent.database import migrations
from agent.database.errors import DatabaseRefuses, DatabaseUnusable
from agent.database.pools import Database
from agent.domain.errors import NotFound, PolicyError
from agent.domain.policy import Policy
from agent.runtime.agents import LoadError, load_agents
from agent.runtime.policy_lint import few_reviewers, lapsed_observations
from agent.store import views
from agent.usecases import policy as policies
from agent.usecases import probe_write, schedules, sweeps, undelivered
from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.service import open_files
from slackbot.service.sample_cards import sample_cards
from slackbot.settings import Settings
from slackbot.slack_api import manifest
from slackbot.slack_api.client import RateLimited, SlackClient, SlackError, SlackRefused, SlackUnavailable
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.error_codes import Meaning
from slackbot.slack_api.workspace import SlackRejected, Workspace, group_members, identify

MAX_SKEW = 60.0
"""Seconds from Slack's clock; Slack's requests older than five minutes are refused."""


MODEL_PATIENCE = 60.0
"""Seconds: a local server may have to load the model first."""

DEAD_SHOWN = 5

SILENCE = timedelta(minutes=15)
"""Such a gap in events means that the service was stopped, or the database is a restored copy."""


@dataclass(frozen=True, slots=True)
class Finding:
    part: str
    well: bool
    detail: str
    remedy: str = ""


async def examine(
    configured: Settings, policy: Policy | SignoffError, database: Database | None, url: str | None
) -> AsyncIterator[Finding]:
    """A failure is a finding. ``policy`` may be the error that prevents loading it."""
    for name in configured.unknown:
        yield Finding("settings", False, f"there is no setting {name}", "correct its name, or remove it")
    if short := open_files.shortage(configured, open_files.hard_limit()):  # the service raises its own to it
        remedy = f"raise the hard limit to {open_files.ENOUGH:,} (`LimitNOFILE=`, `--ulimit nofile=`)"
        yield Finding("open files", False, short, remedy)
    yield _checkpoints(policy)
    file = Policy() if isinstance(policy, SignoffError) else policy
    policy = file
    yield (found := await _database(configured, database, url))
    if database is not None and found.well:
        finding, policy = await _policy(configured, file, database)
        yield finding
        yield await _backlog(database)
        yield await _dead(database)
        yield await _schedules(configured, database)
        if failing := await sweeps.list_failing(database):
            yield _sweeps(failing)
    if configured.slack_bot_token is None:
        yield Finding("Slack", False, "SLACK_BOT_TOKEN is not set", "install the app and set its bot token")
    else:
        client = SlackClient(configured.slack_bot_token.get_secret_value(), configured.slack_api_url)
        async for finding in _slack(configured, policy, client):
            yield finding
    yield await find_model(configured)


def _checkpoints(policy: Policy | SignoffError) -> Finding:
    if isinstance(policy, SignoffError):
        remedy = "fix the file, or run `signoff init` to write one to start from"
        return Finding("checkpoints", False, str(policy), remedy)
    return Finding(
        "checkpoints",
        True,
        f"{len(policy.rules) + len(policy.denials)} in the file, and defaults for the rest",
    )


async def _database(configured: Settings, database: Database | None, url: str | None) -> Finding:
    if database is None or url is None:
        return Finding("database", False, "DATABASE_URL is not set", "set it, or use --embedded")
    schema, role = configured.db_schema, configured.db_role
    try:
        behind = await asyncio.to_thread(migrations.pending, url, schema, role=role)
    except DatabaseUnusable as error:
        return Finding("database", False, error.detail, error.remedy or _answer_remedy(error))
    except SignoffError as error:
        return Finding("database", False, str(error), _answer_remedy(error))
    if behind:
        return Finding("database", False, "the schema is not current", "run `signoff db upgrade`")
    try:
        async with database.connection() as connection:
            version = (await connection.exec_driver_sql("SHOW server_version")).scalar_one()
        await probe_write.run(database)
    except DatabaseRefuses as error:
        remedy = "free its disk, let it write, or grant the rights again; see the runbook"
        return Finding("database", False, str(error), remedy)
    except SignoffError as error:
        return Finding(
            "database", False, str(error), "let its login use the service's role: `signoff db upgrade`"
        )
    return Finding("database", True, f"PostgreSQL {version}, schema {schema!r} is current")


_ANSWERS = {
    "password": "correct login and password in DATABASE_URL",
    "role": "create that login, or correct it in DATABASE_URL",
    "database": "create that database, or correct its name in DATABASE_URL",
    "pg_hba.conf": "let pg_hba.conf of the server admit this machine and login",
    "starting up": "the server is starting: try again",
    "shutting down": "the server is stopping: start it again",
    "too many": "raise max_connections of the server, or close other connections",
    "connection slots": "raise max_connections of the server, or close other connections",
}
"""Remedies by words of a server that answers and lets nobody in; a code comes only with statements."""


def _answer_remedy(error: SignoffError) -> str:
    _, is_answer, answer = str(error).partition("FATAL:")
    if not is_answer:
        return "start the server, or correct host and port in DATABASE_URL; a firewall may be in between"
    found = (remedy for words, remedy in _ANSWERS.items() if words in answer)
    return next(found, "the server answers: fix what it says, or DATABASE_URL")


async def _policy(configured: Settings, file: Policy, database: Database) -> tuple[Finding, Policy]:
    stored = await policies.in_force(database)
    if stored is None:
        return Finding("policy", True, "none is in force; the first start puts the file in force"), file
    detail = f"policy {stored.epoch} is in force, applied by {stored.by}"
    try:
        policy = configured.read_policy(stored.source, f"policy {stored.epoch}")
    except PolicyError as error:
        remedy = (
            "update Signoff here, or fix the settings; until then this process evaluates and claims nothing"
        )
        return Finding("policy", False, f"{detail}, and cannot be loaded: {error}", remedy), file
    if policy.digest != file.digest:
        detail += f"; {configured.checkpoints} differs from it (`signoff policy apply` puts a file in force)"
    detail = "; ".join(
        [detail, *(sentence for _, sentence in lapsed_observations(policy, datetime.now(UTC)))]
    )
    return Finding("policy", True, detail), policy


async def _backlog(database: Database) -> Finding:
    """Work that the next start begins. A restored database may hold work already done."""
    found = await database.read(views.backlog)
    begins = {
        "calls that run": found.calls - found.outdated,
        "approvals that are too old, so people are asked again": found.outdated,
        "approvals that can be claimed": found.approvals,
        "attempts that become in doubt": found.attempts,
        "runs that continue": found.runs,
        "messages that go out": found.messages,
    }
    detail = ", ".join(f"{what}: {number:,}" for what, number in begins.items() if number)
    if not detail or found.latest is None:
        return Finding("open work", True, "none; the next start begins nothing")
    silence = found.now - found.latest
    detail = f"the next start begins: {detail}; last recorded at {found.latest:%Y-%m-%d %H:%M:%S} UTC"
    if found.paused:
        return Finding("open work", True, f"{detail}; everything is paused, so nothing runs")
    if silence < SILENCE:
        return Finding("open work", True, detail)
    remedy = (
        "if this is a restored backup, run `signoff pause` before the start, and check what was done since"
    )
    return Finding("open work", False, detail, remedy)


async def _dead(database: Database) -> Finding:
    found = await undelivered.list_dead(database, DEAD_SHOWN + 1)
    if not found:
        return Finding("messages", True, "none was given up")
    named = "; ".join(f"{each.kind} in {each.channel_id}: {each.error}" for each in found[:DEAD_SHOWN])
    more = "; and more" if len(found) > DEAD_SHOWN else ""
    remedy = "fix the cause, then `signoff deliveries retry --all`; `signoff deliveries` lists them"
    return Finding("messages", False, f"Slack refused {named}{more}", remedy)


async def _schedules(configured: Settings, database: Database) -> Finding:
    """A schedule whose agent is loaded nowhere starts nothing."""
    if not (named := await schedules.unknown_agents(database, [])):
        return Finding("schedules", True, "there are none")
    try:
        known = {agent.name for agent in load_agents(configured.agents)}
    except LoadError as error:
        return Finding("schedules", False, f"the agents cannot be loaded: {error}", "fix SIGNOFF_AGENTS")
    if unknown := [name for name in named if name not in known]:
        remedy = "load its module (SIGNOFF_AGENTS), or `signoff schedule remove` it"
        return Finding("schedules", False, f"agents that are not loaded: {', '.join(unknown)}", remedy)
    return Finding("schedules", True, f"they start {', '.join(named)}")


def _sweeps(failing: Mapping[str, str]) -> Finding:
    named = ", ".join(f"{name} ({error})" for name, error in sorted(failing.items()))
    remedy = "look for `sweep.failed` in the schedulers' logs; what works again is not listed a minute later"
    return Finding("sweeps", False, f"failed three times running: {named}", remedy)


async def _slack(configured: Settings, policy: Policy, client: SlackClient) -> AsyncIterator[Finding]:
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


async def _cards(client: SlackClient, home: Workspace) -> Finding:
    """Slack's own check of each kind of message; it posts nothing."""
    samples = list(sample_cards(Person(home.team_id, home.bot_user_id), "C0SAMPLE", datetime.now(UTC)))
    refused: dict[str, str] = {}
    for kind, card in samples:
        try:
            await client.api_call("blocks.validate", json={"blocks": card.blocks})
        except SlackRefused as error:
            if error.meaning is not Meaning.MESSAGE:
                return Finding("cards", True, f"Slack does not check them here ({error.code})")
            refused[kind] = error.code
        except SlackError as error:
            return Finding("cards", True, f"Slack did not check them ({error})")
    if refused:
        named = "; ".join(f"{kind} ({code})" for kind, code in refused.items())
        remedy = "they are sent in a plain form; upgrade Signoff, or report it as a bug"
        return Finding("cards", False, f"Slack refuses {named}", remedy)
    return Finding("cards", True, f"Slack accepts all {len(samples)} kinds of messages")


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


async def find_model(configured: Settings) -> Finding:
    key = configured.openai_api_key
    if key is None:
        return Finding("model", False, "OPENAI_API_KEY is not set", "set it (any text for a local server)")
    client = AsyncOpenAI(
        api_key=key.get_secret_value(), base_url=configured.openai_base_url, timeout=10, max_retries=0
    )
    try:
        await _ask_for_model(client, configured.model)
    except OpenAIError as error:
        detail, remedy = _model_trouble(error, configured.model, client.base_url.netloc.decode())
        return Finding("model", False, detail, remedy)
    finally:
        await client.close()
    return Finding("model", True, configured.model)


def _model_trouble(error: OpenAIError, name: str, address: str) -> tuple[str, str]:
    """What is wrong, and the remedy."""
    match error:
        case APIStatusError(status_code=401 | 403):
            return f"{address} does not accept OPENAI_API_KEY", "copy the key again, or create a new one"
        case APIStatusError(status_code=404):
            remedy = "set SIGNOFF_MODEL to a model of that server, or OPENAI_BASE_URL to another one"
            return f"{address} has no model {name!r}", remedy
        case APIStatusError(status_code=429):
            return f"{address} takes no more calls (429)", "wait, or raise the account's limits"
        case APIStatusError() if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return f"{address} has trouble ({error.status_code})", "try again"
        case APIConnectionError():
            remedy = "let this machine reach it: check DNS, proxy, firewall and OPENAI_BASE_URL"
            return f"cannot reach {address}", remedy
        case _:
            return f"{name}: {type(error).__name__}", "check OPENAI_BASE_URL and SIGNOFF_MODEL"


async def _ask_for_model(client: AsyncOpenAI, name: str) -> None:
    """Send a short prompt if the server has no `GET /models/{id}`. Raises OpenAIError."""
    try:
        await client.models.retrieve(name)
    except APIStatusError as error:
        if error.status_code in (401, 403, 429) or error.code == "model_not_found":
            raise
        question: ChatCompletionUserMessageParam = {"role": "user", "content": "Answer with the word: ready"}
        await client.chat.completions.create(model=name, messages=[question], timeout=MODEL_PATIENCE)


def _channels(configured: Settings, policy: Policy) -> set[str]:
    return {*policy.channels, *([configured.channel] if configured.channel else [])}


def _groups(policy: Policy) -> set[str]:
    terms = [policy.defaults, *policy.rules]
    named = {name for each in terms for name in (*each.approvers, *each.notify, *each.escalate_to)}
    return {name for name in named if name.startswith("S")}
