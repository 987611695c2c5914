"""Failures that can be switched on, seen from the unmodified client; and the browser page's interface."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from signoff_demo.sandbox import RateLimits, SlackSandbox
from signoff_demo.sandbox.faults import ApiFault, Faults
from signoff_demo.sandbox.model import ScriptedModel

BUTTON = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}}
CARD = [{"type": "actions", "block_id": "b", "elements": [BUTTON]}]


@pytest_asyncio.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(rate_limits=False, ack_seconds=0.3) as sandbox:
        yield sandbox


@pytest.fixture
def client(slack: SlackSandbox) -> AsyncWebClient:
    # No retry handlers: a lost answer must stay lost.
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[], timeout=1)


async def test_too_many_posts_are_told_when_to_come_back() -> None:
    """The sixth post of a burst is 429 with Retry-After; another channel is not held up."""
    async with SlackSandbox(rate_limits=RateLimits(burst=5)) as slack:
        client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
        for _ in range(5):
            await client.chat_postMessage(channel="C0REVIEW", text="x")
        with pytest.raises(SlackApiError) as refused:
            await client.chat_postMessage(channel="C0REVIEW", text="x")
        assert refused.value.response.status_code == 429
        assert refused.value.response.headers["Retry-After"] == "1"
        await client.chat_postMessage(channel="C0AGENTS", text="x")
        assert [call.outcome for call in slack.calls_of("chat.postMessage")] == ["ok"] * 5 + [
            "ratelimited",
            "ok",
        ]


async def test_a_reset_before_acceptance_stores_nothing_and_one_after_stores_the_message(
    slack: SlackSandbox, client: AsyncWebClient
) -> None:
    """The caller sees the same broken connection; only looking for the message distinguishes the two."""
    slack.faults.reset_before_accept("chat.postMessage")
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel="C0REVIEW", text="x")
    assert slack.messages("C0REVIEW") == []
    slack.faults.reset_after_accept("chat.postMessage")
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel="C0REVIEW", text="x")
    assert len(slack.messages("C0REVIEW")) == 1


async def test_errors_outages_and_rate_limits_on_demand(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """An error code, a 429 and a 500 strike once each and then the method works again."""
    slack.faults.error("users.info", "fatal_error")
    slack.faults.ratelimited("users.info", retry_after=7)
    slack.faults.http_500("users.info")
    seen = []
    for _ in range(3):
        with pytest.raises(SlackApiError) as refused:
            await client.users_info(user="U0ADA")
        seen.append((refused.value.response.status_code, refused.value.response.headers.get("Retry-After")))
    assert seen == [(200, None), (429, "7"), (500, None)]
    assert (await client.users_info(user="U0ADA"))["ok"]
    assert [call.outcome for call in slack.calls] == ["error", "ratelimited", "http_500", "ok"]


async def test_a_slow_call_is_accepted_and_a_hanging_one_is_not(
    slack: SlackSandbox, client: AsyncWebClient
) -> None:
    """Slow answers arrive; a hang runs into the caller's own time-out, and nothing is stored."""
    slack.faults.slow("chat.postMessage", 0.05)
    assert (await client.chat_postMessage(channel="C0REVIEW", text="x"))["ok"]
    slack.faults.hang("chat.postMessage", 0.05)
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel="C0REVIEW", text="x")
    assert len(slack.messages("C0REVIEW")) == 1


async def test_refused_tickets(slack: SlackSandbox) -> None:
    """An address is issued, but opening it fails, as in an outage of Slack's socket servers."""
    slack.faults.refuse_tickets()
    client = AsyncWebClient(token=slack.app_token, base_url=slack.api_url)
    url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)


async def test_an_absent_app_is_an_error_for_the_person(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """Without a socket and without a request URL, a press shows an error and loses nothing else."""
    await client.chat_postMessage(channel="C0REVIEW", text="card", blocks=CARD)
    answer = await slack.person("U0ADA").click(slack.messages("C0REVIEW")[0], "go")
    assert (answer.acked, answer.error) == (False, "operation timed out")


async def post(session: aiohttp.ClientSession, url: str, body: Any, **headers: str) -> tuple[int, Any]:
    async with session.post(url, json=body, headers=headers) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if answer.content_type == "application/json" else text


async def test_the_page_sees_the_workspace_and_acts_in_it(
    slack: SlackSandbox, client: AsyncWebClient
) -> None:
    """State, messages with their threads, and acting as a member work over the page's interface."""
    await client.chat_postMessage(channel="C0REVIEW", text="card", blocks=CARD)
    ts = slack.messages("C0REVIEW")[0]["ts"]
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{slack.url}/sandbox/state") as answer:
            state = await answer.json()
        assert {"team", "bot", "members", "usergroups", "channels", "commands", "now"} <= state.keys()
        assert {each["command"] for each in state["commands"]} == {"/agent", "/approvals"}
        say = {"user": "U0ADA", "channel": "C0REVIEW", "text": "why?", "thread_ts": ts}
        status, said = await post(session, f"{slack.url}/sandbox/act/say", say, **{"X-Sandbox": "1"})
        assert (status, said["ok"]) == (200, True)
        async with session.get(f"{slack.url}/sandbox/channels/C0REVIEW/messages") as answer:
            (root,) = (await answer.json())["messages"]
        assert (root["reply_count"], root["replies"][0]["text"]) == (1, "why?")
        click = {"user": "U0ADA", "channel": "C0REVIEW", "ts": ts, "block_id": "b", "action_id": "go"}
        status, clicked = await post(session, f"{slack.url}/sandbox/act/click", click, **{"X-Sandbox": "1"})
        assert (clicked["ok"], clicked["error"]) == (False, "operation timed out")
        gone = click | {"action_id": "gone"}
        status, missed = await post(session, f"{slack.url}/sandbox/act/click", gone, **{"X-Sandbox": "1"})
        assert (missed["ok"], missed["error"]) == (False, "This button is not there any more.")


async def test_the_page_has_the_guide_as_it_is_now() -> None:
    """A guide is asked each time for what has been seen so far; without one there are no scenes."""
    for given in (lambda slack: {"scenes": [len(slack.messages("C0REVIEW"))]}, None):
        async with SlackSandbox(guide=given) as slack, aiohttp.ClientSession() as session:
            for number in (0, 1):
                async with session.get(f"{slack.url}/sandbox/guide") as answer:
                    assert await answer.json() == {"scenes": [number] if given else []}
                slack.person("U0ADA").say("C0REVIEW", "hi")


async def test_a_permalink_leads_to_the_page(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """The path of a message's address in Slack opens the page there."""
    root = await client.chat_postMessage(channel="C0REVIEW", text="root")
    reply = await client.chat_postMessage(channel="C0REVIEW", text="reply", thread_ts=root["ts"])
    for message, thread in ((root, ""), (reply, f"&thread={root['ts']}")):
        link = await client.chat_getPermalink(channel="C0REVIEW", message_ts=message["ts"])
        async with (
            aiohttp.ClientSession() as session,
            session.get(slack.url + URL(link["permalink"]).raw_path_qs, allow_redirects=False) as answer,
        ):
            assert answer.headers["Location"] == f"/#channel=C0REVIEW&message={message['ts']}{thread}"


async def test_other_pages_cannot_act_in_it(slack: SlackSandbox) -> None:
    """Without the page's own header, or under a foreign host name, nothing is done."""
    say = {"user": "U0ADA", "channel": "C0REVIEW", "text": "hi"}
    async with aiohttp.ClientSession() as session:
        url = f"{slack.url}/sandbox/act/say"
        assert (await post(session, url, say))[0] == 403
        assert (await post(session, url, say, **{"X-Sandbox": "1", "Host": "evil.example"}))[0] == 403
        async with session.get(f"{slack.url}/sandbox/state", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403
    assert slack.messages("C0REVIEW") == []


def another_site(port: int) -> list[dict[str, str]]:
    """The headers that a page of another site makes a browser send."""
    return [
        {"Host": "rebound.example"},
        {"Host": f"rebound.example:{port}", "Origin": f"http://rebound.example:{port}"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{port + 1}"},
    ]


async def test_another_site_reaches_no_route(slack: SlackSandbox) -> None:
    """Every route, the Web API's and the response URLs' too, refuses another host's name and another site's origin."""
    message = slack.person("U0ADA").say("C0REVIEW", "mine")
    runner = slack._runner
    assert runner is not None
    routes = [
        (route.method, route.resource.canonical) for route in runner.app.router.routes() if route.resource
    ]
    assert len(routes) > 15
    forged = {"Authorization": f"Bearer {slack.bot_token}", "X-Sandbox": "1"}
    text = {"channel": "C0REVIEW", "ts": message["ts"], "text": "theirs"}
    async with aiohttp.ClientSession() as session:
        for method, path in (*routes, ("POST", "/api/chat.update"), ("POST", "/api/chat.postMessage")):
            where = slack.url + re.sub(r"\{\w+\}", "x", path)
            for foreign in another_site(slack.port):
                sent = "POST" if method == "*" else method
                async with session.request(sent, where, data=text, headers=forged | foreign) as answer:
                    assert answer.status == 403, (method, path, foreign)
        assert [each["text"] for each in slack.messages("C0REVIEW")] == ["mine"]
        own = {**forged, "Origin": slack.url}
        async with session.post(f"{slack.url}/api/auth.test", headers=own) as answer:
            assert (await answer.json())["ok"] is True


async def test_another_site_does_not_reach_the_model() -> None:
    """The scripted model refuses another host's name and another site's origin on every route, and uses no turn."""
    async with ScriptedModel() as model, aiohttp.ClientSession() as session:
        model.script("ours")
        chat = {"model": "signoff-scripted", "messages": [{"role": "user", "content": "hi"}]}
        for method, path in (
            ("POST", "chat/completions"),
            ("GET", "models"),
            ("GET", "models/signoff-scripted"),
        ):
            for foreign in another_site(model.port):
                where = f"{model.base_url}/{path}"
                async with session.request(method, where, json=chat, headers=foreign) as answer:
                    assert answer.status == 403, (method, path, foreign)
        assert model.requests == []
        async with session.post(f"{model.base_url}/chat/completions", json=chat) as answer:
            assert (await answer.json())["choices"][0]["message"]["content"] == "ours"


async def test_each_start_has_its_own_secrets() -> None:
    """No page of another site can know a token that opens the Web API, or sign a request to the app."""
    one, other = SlackSandbox(), SlackSandbox()
    for name in ("bot_token", "app_token", "signing_secret"):
        assert getattr(one, name) != getattr(other, name)
    assert one.openid.client_secret != other.openid.client_secret
    assert (one.bot_token[:5], one.app_token[:5]) == ("xoxb-", "xapp-")


async def test_the_page_hears_of_changes(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """Every message, update and deletion is a server-sent event, in order."""
    async with aiohttp.ClientSession() as session, session.get(f"{slack.url}/sandbox/events") as stream:
        await stream.content.readline()
        ts = (await client.chat_postMessage(channel="C0REVIEW", text="x"))["ts"]
        await client.chat_update(channel="C0REVIEW", ts=ts, text="y")
        await client.chat_delete(channel="C0REVIEW", ts=ts)
        changes: list[dict[str, Any]] = []
        while len(changes) < 3:
            line = (await stream.content.readline()).decode()
            if line.startswith("data: "):
                changes.append(json.loads(line[6:]))
    assert [change["type"] for change in changes] == ["message", "update", "delete"]
    assert {change["ts"] for change in changes} == {ts}


async def test_levers_do_something_to_the_world_around() -> None:
    """The page's buttons beside Slack call what was put there, with the same guard as its other acts."""
    pulled: list[str] = []

    def crash() -> str:
        pulled.append("crash")
        return "It is down."

    async with SlackSandbox() as slack, aiohttp.ClientSession() as session:
        slack.levers["crash"] = crash
        url = f"{slack.url}/sandbox/levers/crash"
        assert (await post(session, url, {}))[0] == 403
        assert await post(session, url, {}, **{"X-Sandbox": "1"}) == (200, {"told": "It is down."})
        assert (await post(session, f"{url}2", {}, **{"X-Sandbox": "1"}))[0] == 404
    assert pulled == ["crash"]


@pytest.mark.parametrize(
    ("fault", "types"),
    [
        (lambda faults: faults.too_many_websockets(), ["disconnect"]),
        (lambda faults: faults.cut_after_hello(), ["hello"]),
        (lambda faults: faults.ask_to_leave("warning"), ["hello", "disconnect", "disconnect"]),
    ],
    ids=["too many", "cut", "asked to leave"],
)
async def test_sockets_that_do_not_last(
    slack: SlackSandbox, fault: Callable[[Faults], ApiFault], types: list[str]
) -> None:
    """A connection opens and ends in one of Slack's ways; the next one works."""
    struck = fault(slack.faults)
    client = AsyncWebClient(token=slack.app_token, base_url=slack.api_url)
    async with aiohttp.ClientSession() as session:
        for expected in (types, ["hello"]):
            url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
            socket = await session.ws_connect(url)
            assert [(await socket.receive_json())["type"] for _ in expected] == expected
    assert struck.hits == 1
