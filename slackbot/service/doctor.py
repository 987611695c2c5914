"""Check everything that the service needs. Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, OpenAIError
from openai.types.chat import ChatCompletionUserMessageParam

from agent.database.pools import Database
from agent.domain.policy import Policy
from signoff.errors import SignoffError
from slackbot.service import open_files
from slackbot.service.database_findings import find_database, find_policy, find_work
from slackbot.service.findings import Finding
from slackbot.service.slack_findings import find_in_slack
from slackbot.settings import Settings

MODEL_PATIENCE = 60.0
"""Seconds: a local server may have to load the model first."""


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
    yield (found := await find_database(configured, database, url))
    if database is not None and found.well:
        finding, policy = await find_policy(configured, file, database)
        yield finding
        async for finding in find_work(configured, database):
            yield finding
    async for finding in find_in_slack(configured, policy):
        yield finding
    yield await find_model(configured)


def _checkpoints(policy: Policy | SignoffError) -> Finding:
    if isinstance(policy, SignoffError):
        remedy = "fix the file, or run `signoff init` to write one to start from"
        return Finding("checkpoints", False, str(policy), remedy)
    return Finding(
        "checkpoints",
        True,
        f"{len(policy.deciding)} in the file, and defaults for the rest",
    )


async def find_model(configured: Settings) -> Finding:
    """Report whether the configured model can be used, by asking its provider without retries."""
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
