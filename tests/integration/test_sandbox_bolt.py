"""A real Bolt app against the stand-in, over Socket Mode and over signed HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from signoff_demo.sandbox import NotOnScreen, SlackSandbox

ADA, REVIEW = "U0ADA", "C0REVIEW"


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def button(action_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": action_id, "text": plain(action_id), "value": "v1", **more}


CONFIRM = {"title": plain("Sure?"), "text": plain("Really"), "confirm": plain("Yes"), "deny": plain("No")}
CARD = [
    {
        "type": "actions",
        "block_id": "b",
        "elements": [
            button("approve", confirm=CONFIRM),
            button("reason"),
            button("silent"),
            button("whisper"),
        ],
    }
]


def modal(title: str, notify: bool = False) -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": "reasons",
        "title": plain(title),
        "submit": plain("Send"),
        "notify_on_close": notify,
        "private_metadata": "pm",
        "blocks": [
            {
                "type": "input",
                "block_id": "why",
                "label": plain("Why"),
                "element": {"type": "plain_text_input", "action_id": "t", "max_length": 20},
            },
            {
                "type": "input",
                "block_id": "kind",
                "label": plain("Kind"),
                "optional": True,
                "element": {
                    "type": "static_select",
                    "action_id": "k",
                    "options": [{"text": plain("Amount"), "value": "amount"}],
                },
            },
        ],
    }


@dataclass
class House:
    """The sandbox and its app; `heard` is every payload that reached a listener, by kind."""

    slack: SlackSandbox
    client: AsyncWebClient
    heard: dict[str, list[Any]] = field(default_factory=dict)
    failing_events: int = 0

    def hear(self, kind: str, payload: Any) -> None:
        self.heard.setdefault(kind, []).append(payload)
        self.slack.workspace.changes.wake()

    async def card(self) -> dict[str, Any]:
        ts = (await self.client.chat_postMessage(channel=REVIEW, text="card", blocks=CARD))["ts"]
        return next(each for each in self.slack.messages(REVIEW) if each["ts"] == ts)

    async def wait_heard(self, kind: str, count: int = 1) -> list[Any]:
        await self.slack.wait_for(lambda: len(self.heard.get(kind, [])) >= count)
        return self.heard[kind]


def app_of(house: House) -> AsyncApp:
    app = AsyncApp(client=house.client, signing_secret=house.slack.signing_secret)
    for listeners in (presses, forms, events):
        listeners(app, house)
    return app


def presses(app: AsyncApp, house: House) -> None:
    @app.command("/agent")
    async def agent(ack: Any, body: Any) -> None:
        house.hear("command", body)
        await ack({"text": "on it", "response_type": "ephemeral"})

    @app.action("approve")
    async def approve(ack: Any, body: Any, client: Any) -> None:
        house.hear("press", body)
        await client.chat_update(channel=body["channel"]["id"], ts=body["message"]["ts"], text="approved")
        await ack()

    @app.action("reason")
    async def reason(ack: Any, body: Any, client: Any) -> None:
        await client.views_open(trigger_id=body["trigger_id"], view=modal("First", notify=True))
        await ack()

    @app.action("silent")
    async def silent(body: Any) -> None:
        house.hear("silent", body)

    @app.action("whisper")
    async def reply_ephemeral(ack: Any, respond: Any) -> None:
        await ack()
        for n in range(6):
            answer = await respond(f"no {n}", replace_original=False)
            house.hear("respond", answer.status_code)


def forms(app: AsyncApp, house: House) -> None:
    @app.view("reasons")
    async def reasons(ack: Any, body: Any, view: Any) -> None:
        house.hear("submission", body)
        match view["state"]["values"]["why"]["t"]["value"]:
            case "bad":
                await ack(response_action="errors", errors={"why": "not good enough"})
            case "again":
                await ack(response_action="update", view=modal("Second"))
            case "more":
                await ack(response_action="push", view=modal("Pushed"))
            case "all":
                await ack(response_action="clear")
            case _:
                await ack()

    @app.view_closed("reasons")
    async def closed(ack: Any, body: Any) -> None:
        house.hear("closed", body)
        await ack()


def events(app: AsyncApp, house: House) -> None:
    for kind in (
        "message",
        "app_mention",
        "app_home_opened",
        "subteam_members_changed",
        "member_joined_channel",
    ):

        @app.event(kind)
        async def event(body: Any, request: Any) -> None:
            house.hear(body["event"]["type"], (body, dict(request.headers)))

    @app.middleware
    async def lose_events(req: Any, resp: Any, next_: Any) -> Any:
        if req.body.get("type") == "event_callback" and house.failing_events:
            house.failing_events -= 1
            house.hear("lost", req.body)
            resp.status = 503
            return resp
        return await next_()


@asynccontextmanager
async def running(mode: str, **options: Any) -> AsyncIterator[House]:
    usual: dict[str, Any] = {
        "rate_limits": False,
        "ack_seconds": 1.0,
        "event_retry_delays": (0.0, 0.0, 0.0),
        "echo": False,
    }
    async with SlackSandbox(**(usual | options)) as slack:
        house = House(slack, AsyncWebClient(token=slack.bot_token, base_url=slack.api_url))
        app = app_of(house)
        if mode == "socket":
            own = AsyncWebClient(token=slack.app_token, base_url=slack.api_url)
            handler = AsyncSocketModeHandler(app, slack.app_token, web_client=own, ping_interval=0.2)
            await handler.connect_async()
            try:
                yield house
            finally:
                await handler.close_async()
            return
        runner = web.AppRunner(app.web_app("/slack/events"), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        slack.request_url = f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
        try:
            yield house
        finally:
            await runner.cleanup()


@pytest_asyncio.fixture(params=["socket", "http"])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    async with running(request.param) as running_house:
        yield running_house


async def test_a_click_reaches_the_app_and_the_card_changes(house: House) -> None:
    """A press arrives with everything that Slack sends, and the message without buttons cannot be pressed again."""
    card, grace = await house.card(), house.slack.person("U0GRACE")
    answer = await grace.click(card, "approve")
    assert (answer.acked, answer.error) == (True, None)
    (body,) = house.heard["press"]
    assert body["user"] == {"id": "U0GRACE", "username": "grace", "name": "grace", "team_id": "T0SANDBOX"}
    assert body["container"] | {"is_ephemeral": 0} == {
        "type": "message",
        "message_ts": card["ts"],
        "channel_id": REVIEW,
        "is_ephemeral": 0,
    }
    assert body["channel"] == {"id": REVIEW, "name": "refund-reviews"}
    assert body["message"]["blocks"] == card["blocks"]
    assert body["actions"][0].items() >= {"action_id": "approve", "block_id": "b", "value": "v1"}.items()
    assert {"trigger_id", "response_url", "state", "token", "api_app_id", "team"} <= body.keys()
    with pytest.raises(NotOnScreen):
        await grace.click(card, "approve")
    assert (await grace.click(card, "approve", stale=True)).acked
    assert len(house.heard["press"]) == 2


async def test_turning_back_at_the_confirm_dialog_sends_nothing(house: House) -> None:
    """The app receives nothing of a press that the person did not confirm."""
    answer = await house.slack.person(ADA).click(await house.card(), "approve", confirm=False)
    assert not answer.acked
    assert "press" not in house.heard


async def test_somebody_from_outside_keeps_their_team(house: House) -> None:
    """An external person's press names their own team as theirs, and the installation's beside it."""
    await house.slack.person("U0EVE").click(await house.card(), "approve")
    (body,) = house.heard["press"]
    assert (body["user"]["team_id"], body["team"]["id"]) == ("T0ELSEWHERE", "T0SANDBOX")


async def test_a_command_is_escaped_and_answered(house: House) -> None:
    """A slash command carries mentions by id and name, and its acknowledgement is shown to the person only."""
    answer = await house.slack.person(ADA).command("/agent", "run for @grace <now>", "C0AGENTS")
    (body,) = house.heard["command"]
    assert body["text"] == "run for <@U0GRACE|grace> &lt;now&gt;"
    assert body["channel_id"] == "C0AGENTS"
    assert [each["text"] for each in answer.ephemeral] == ["on it"]
    assert house.slack.messages("C0AGENTS") == []


async def test_a_command_in_a_thread_is_refused(house: House) -> None:
    """Slack has no slash commands in threads; the app receives nothing."""
    answer = await house.slack.person(ADA).command("/agent", "run", "C0AGENTS", thread_ts="1.0")
    assert answer.error is not None
    assert "command" not in house.heard


async def test_a_modal_from_opening_to_closing(house: House) -> None:
    """Required fields, errors, update, push, clear and cancel do to the stack of views what Slack does."""
    ada, slack, card = house.slack.person(ADA), house.slack, await house.card()
    await ada.click(card, "reason")
    (view,) = slack.views(ADA)
    assert (await ada.submit(view)).errors.keys() == {"why"}
    assert "submission" not in house.heard
    assert (await ada.submit(view, {"why/t": "bad"})).errors == {"why": "not good enough"}
    await ada.submit(view, {"t": "again", "kind": {"k": "amount"}})
    (sent,) = house.heard["submission"][1:]
    assert sent["view"]["private_metadata"] == "pm"
    assert sent["view"]["state"]["values"]["kind"]["k"]["selected_option"]["value"] == "amount"
    assert slack.views(ADA)[0]["title"]["text"] == "Second"
    await ada.submit(view, {"t": "more"})
    assert [each["title"]["text"] for each in slack.views(ADA)] == ["Second", "Pushed"]
    assert (await ada.submit(slack.views(ADA)[-1], {"t": "fine"})).error is None
    assert len(slack.views(ADA)) == 1
    await ada.submit(view, {"t": "all"})
    assert slack.views(ADA) == []
    await ada.click(card, "reason")
    await ada.close(slack.views(ADA)[0])
    assert (await house.wait_heard("closed"))[0]["is_cleared"] is False
    assert slack.views(ADA) == []


async def test_no_acknowledgement_is_shown_as_a_time_out(house: House) -> None:
    """A listener that never acknowledges costs the person the whole wait and shows an error; nothing is resent."""
    answer = await house.slack.person(ADA).click(await house.card(), "silent")
    assert not answer.acked
    assert answer.error is not None
    assert answer.error.startswith("operation timed out")
    assert len(house.heard["silent"]) == 1


async def test_a_response_url_works_five_times(house: House) -> None:
    """The sixth use of a response_url is refused; the answers are seen by the person who pressed."""
    answer = await house.slack.person(ADA).click(await house.card(), "whisper")
    assert await house.wait_heard("respond", 6) == [200] * 5 + [404]
    assert [post["text"] for post in answer.posts] == [f"no {n}" for n in range(5)]
    assert len(answer.ephemeral) == 5
    assert house.slack.ephemeral("U0GRACE") == []


async def test_events_of_people(house: House) -> None:
    """Messages, mentions, the Home tab, and changes of groups and channels reach the app as Slack words them."""
    ada, workspace = house.slack.person(ADA), house.slack.workspace
    said = ada.mention("C0AGENTS", "hello <b>")
    (message, _), (mention, _) = (
        (await house.wait_heard("message"))[0],
        (await house.wait_heard("app_mention"))[0],
    )
    assert message["event"]["text"] == mention["event"]["text"] == "<@U0BOT> hello &lt;b&gt;"
    assert (message["event"]["channel_type"], mention["event"]["ts"]) == ("channel", said["ts"])
    assert message["event_id"] != mention["event_id"]
    ada.say("C0AGENTS", "a reply", thread_ts=said["ts"])
    assert (await house.wait_heard("message", 2))[1][0]["event"]["thread_ts"] == said["ts"]
    ada.open_home()
    assert (await house.wait_heard("app_home_opened"))[0][0]["event"]["tab"] == "home"
    workspace.change_usergroup("S0FINANCE", ["U0GRACE", ADA])
    changed = (await house.wait_heard("subteam_members_changed"))[0][0]["event"]
    assert (changed["added_users"], changed["removed_users"]) == ([ADA], ["U0LINUS"])
    workspace.join("C0REVIEW", "U0EVE")
    assert (await house.wait_heard("member_joined_channel"))[0][0]["event"]["user"] == "U0EVE"


async def test_an_event_is_sent_again_until_it_is_acknowledged() -> None:
    """Over HTTP a failed event comes again with its number and reason, under the same event_id."""
    async with running("http") as house:
        house.failing_events = 2
        house.slack.person(ADA).say("C0AGENTS", "hello")
        ((body, headers),) = await house.wait_heard("message")
        assert headers["x-slack-retry-num"] == ["2"]
        assert headers["x-slack-retry-reason"] == ["http_error"]
        assert {lost["event_id"] for lost in house.heard["lost"]} == {body["event_id"]}


async def test_a_signed_click_can_be_replayed_and_a_forged_one_cannot() -> None:
    """The raw request is accepted as often as it is sent, and refused with any byte or second changed."""
    async with running("http") as house:
        slack, card = house.slack, await house.card()
        assert await slack.http.verify_url()
        request = slack.person(ADA).signed_click(card, "approve")
        assert [(await slack.send(request)).status for _ in range(3)] == [200] * 3
        assert json.loads(parse_qs(request.body.decode())["payload"][0])["user"]["id"] == ADA
        forged = replace(request, body=request.body.replace(b"U0ADA", b"U0EVE"))
        old = slack.sign(request.body, timestamp=1)
        assert [(await slack.send(each)).status for each in (forged, old)] == [401, 401]
        assert len(house.heard["press"]) == 3


async def test_socket_faults() -> None:
    """A lost acknowledgement shows an error, a duplicate arrives twice, and a dropped connection is rebuilt."""
    async with running("socket", ack_seconds=0.3) as house:
        slack, ada, card = house.slack, house.slack.person(ADA), await house.card()
        slack.faults.drop_acks()
        assert not (await ada.click(card, "approve")).acked
        slack.faults.duplicate_deliveries()
        assert (await ada.click(card, "approve", stale=True)).acked
        await house.wait_heard("press", 3)
        await slack.sockets.refresh()
        await slack.wait_for(lambda: slack.sockets.connections)
        assert (await ada.click(card, "approve", stale=True)).acked
        await slack.sockets.cut()
        await slack.wait_for(lambda: slack.sockets.connections)
        assert (await ada.click(card, "approve", stale=True)).acked


async def test_tickets_work_once_and_each_payload_goes_to_one_socket() -> None:
    """Three connections share the deliveries; a used ticket opens nothing."""
    async with SlackSandbox(rate_limits=False, echo=False) as slack, aiohttp.ClientSession() as session:
        client = AsyncWebClient(token=slack.app_token, base_url=slack.api_url)
        urls = [(await client.apps_connections_open(app_token=slack.app_token))["url"] for _ in range(3)]
        sockets = [await session.ws_connect(url) for url in urls]
        hellos = [await socket.receive_json() for socket in sockets]
        assert [hello["num_connections"] for hello in hellos] == [1, 2, 3]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(urls[0])

        async def acknowledge(socket: aiohttp.ClientWebSocketResponse) -> str:
            envelope = await socket.receive_json()
            await socket.send_json({"envelope_id": envelope["envelope_id"], "payload": {"text": "ok"}})
            return str(envelope["type"])

        served = [asyncio.create_task(acknowledge(socket)) for socket in sockets]
        answers = await asyncio.gather(*(slack.person(ADA).command("/agent", "x", REVIEW) for _ in range(3)))
        assert all(answer.acked and answer.response == {"text": "ok"} for answer in answers)
        assert await asyncio.gather(*served) == ["slash_commands"] * 3
        for socket in sockets:
            await socket.close()
