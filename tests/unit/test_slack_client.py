"""The one client for calls to Slack: what a failure becomes, the silence after a 429, and that no other is used."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from signoff_demo.sandbox import SlackSandbox
from slackbot.slack_api.client import RateLimited, SlackClient, SlackError, SlackRefused, SlackUnavailable
from slackbot.slack_api.error_codes import Meaning
from tests.planted import SECRETS

ROOT = Path(__file__).parents[2]
POST = "chat.postMessage"
Fault = Callable[[SlackSandbox], object]


class Clock:
    """A clock that the test advances."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(rate_limits=False, echo=False) as sandbox:
        yield sandbox


async def failure(client: SlackClient, channel: str = "C0REVIEW") -> SlackError:
    with pytest.raises(SlackError) as failed:
        await client.chat_postMessage(channel=channel, text="hello")
    return failed.value


@pytest.mark.parametrize(
    ("fault", "kind", "meaning", "taken"),
    [
        (lambda slack: slack.faults.error(POST, "ratelimited"), RateLimited, Meaning.SLOW_DOWN, False),
        (lambda slack: slack.faults.error(POST, "internal_error"), SlackUnavailable, Meaning.PASSING, True),
        (lambda slack: slack.faults.http_500(POST), SlackUnavailable, Meaning.PASSING, True),
        (lambda slack: slack.faults.reset_after_accept(POST), SlackUnavailable, Meaning.PASSING, True),
        (lambda slack: slack.faults.error(POST, "missing_scope"), SlackRefused, Meaning.TOKEN, False),
        (lambda slack: slack.faults.error(POST, "is_archived"), SlackRefused, Meaning.CHANNEL, False),
        (lambda slack: slack.faults.error(POST, "msg_too_long"), SlackRefused, Meaning.MESSAGE, False),
        (lambda slack: slack.faults.error(POST, "dreaming"), SlackRefused, Meaning.UNKNOWN, False),
    ],
    ids=["busy", "trouble", "500", "lost", "token", "channel", "message", "unknown"],
)
async def test_a_failure_has_one_of_three_names(
    slack: SlackSandbox, fault: Fault, kind: type[SlackError], meaning: Meaning, taken: bool
) -> None:
    """Every failure says what follows from it and whether Slack may have done it, and nothing is sent twice."""
    fault(slack)
    error = await failure(SlackClient(slack.bot_token, slack.api_url))
    assert (type(error), error.meaning, error.taken) == (kind, meaning, taken)
    assert len(slack.calls_of(POST)) == 1


@pytest.mark.parametrize(
    ("body", "kind"), [("<html>", "text/html"), ("OK", "text/plain"), ("[1]", "application/json")]
)
async def test_an_answer_that_is_not_slacks_is_no_answer(body: str, kind: str) -> None:
    """Something between us and Slack answers 200 in its place: Slack is unavailable, for look-ups and posts alike."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type=kind)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        assert isinstance(await failure(SlackClient("xoxb-1", str(server.make_url("/")))), SlackUnavailable)


async def test_a_429_silences_its_method_and_a_post_its_channel(slack: SlackSandbox) -> None:
    """Until Retry-After is over the same is not asked again, by any part of the process; other things are."""
    clock = Clock()
    client = SlackClient(slack.bot_token, slack.api_url, clock=clock)
    slack.faults.ratelimited(POST, retry_after=7)
    assert (await failure(client)).seconds == 7
    clock.now += 6
    assert (await failure(client)).seconds == 1
    assert len(slack.calls_of(POST)) == 1
    await client.chat_postMessage(channel="C0AGENTS", text="hello")
    await client.auth_test()
    clock.now += 1
    await client.chat_postMessage(channel="C0REVIEW", text="hello")
    assert len(slack.calls_of(POST)) == 3


async def test_an_answer_at_a_response_url_is_masked_and_fails_as_every_call_does() -> None:
    """What a click is answered with hides tokens, keeps its ids, and is sent once, whatever comes back."""
    heard: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(await request.json())
        return web.Response(status=200 if len(heard) == 1 else 429, headers={"Retry-After": "7"})

    app = web.Application()
    app.router.add_post("/actions", answer)
    async with TestServer(app) as server:
        client, url = SlackClient("xoxb-1", "http://127.0.0.1:9/"), str(server.make_url("/actions"))
        await client.respond(url, text=f"no {SECRETS['github-token']}", response_type="ephemeral")
        with pytest.raises(RateLimited) as failed:
            await client.respond(url, text="again")
    assert failed.value.seconds == 7
    assert len(heard) == 2
    assert heard[0]["response_type"] == "ephemeral"
    assert "redacted" in heard[0]["text"]
    assert SECRETS["github-token"] not in heard[0]["text"]


# --- nothing goes past it ---------------------------------------------------------------------------------

CLIENT = "slackbot/slack_api/client.py"
FAILURES = {"SlackApiError", "SlackClientError", "SlackRequestError"}
CLIENTS = {"AsyncWebClient", "WebClient", "AsyncWebhookClient", "WebhookClient", "AsyncSay", "AsyncRespond"}
OTHERS = {
    "slackbot/slack/socket_mode.py"
}  # Slack's library opens sockets with a client that raises its own errors
PARSER = "signoff/retry_after.py"
PARSES = {"isdigit", "isdecimal", "isnumeric", "parsedate_to_datetime", "parsedate_tz", "mktime_tz", "float"}


def modules(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """Our modules in which one of these words stands."""
    for package in ("agent", "signoff", "slackbot"):
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text()
            if any(word in source for word in words):
                yield path.relative_to(ROOT).as_posix(), ast.parse(source)


def name_of(node: Any) -> str:
    """The last part of a name, wherever it stands: imported, as an attribute, alone."""
    return str(getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", ""))


def test_nothing_else_talks_to_slack() -> None:
    """Slack's own errors and clients are known to our client alone; listeners do not take those that Bolt offers."""
    names = {
        path: {
            name_of(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        }
        for path, tree in modules(*FAILURES, *CLIENTS)
    }
    assert {path for path, used in names.items() if used & FAILURES} == {CLIENT}
    assert {path for path, used in names.items() if used & CLIENTS} == {CLIENT} | OTHERS


def reads_retry_after(node: ast.AST) -> bool:
    """Whether this takes Retry-After out of headers."""
    where = (
        node.args[:1] if isinstance(node, ast.Call) and name_of(node.func) in ("get", "getone", "pop") else []
    )
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        where = [node.slice]
    return any(
        isinstance(each, ast.Constant) and str(each.value).lower().startswith("retry-after") for each in where
    )


def test_retry_after_is_parsed_in_one_place() -> None:
    """All readers of the header use the one parser; no function that reads it looks at digits or dates."""
    readers = {}
    for path, tree in modules("retry_after", "etry-After", "etry-after"):
        functions = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for function in functions:
            inside = list(ast.walk(function))
            if any(map(reads_retry_after, inside)):
                called = {name_of(node.func) for node in inside if isinstance(node, ast.Call)}
                readers[f"{path}:{function.name}"] = called & PARSES
                assert "from signoff.retry_after import retry_after" in (ROOT / path).read_text(), path
        if path != PARSER:
            assert not [f.name for f in functions if f.name.strip("_") == "retry_after"], path
    assert f"{CLIENT}:_failure" in readers
    assert {reader: found for reader, found in readers.items() if found} == {}
