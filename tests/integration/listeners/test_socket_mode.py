"""Socket Mode: it connects, heals, says how it is, and does not wait for ever with a wrong token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import pytest

from signoff.backoff import Backoff
from signoff_demo.sandbox import SlackSandbox
from slackbot.slack.listeners import new_app
from slackbot.slack.socket_mode import Pauses, SocketMode
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.workspace import SlackRejected
from tests.integration.asking import ask
from tests.integration.listeners.conftest import House

PAUSES = Pauses(Backoff(first=0.4, longest=1.6, spread=(1.0, 1.25)), short=0.4)


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(rate_limits=False) as sandbox:
        yield sandbox


def socket_of(slack: SlackSandbox, app_token: str | None = None, **more: Any) -> SocketMode:
    client = SlackClient(slack.bot_token, slack.api_url)
    app = new_app(client, team_id="T0SANDBOX", bot_user_id="U0BOT", bot_id="B0BOT")
    return SocketMode(app, app_token or slack.app_token, slack.api_url, ping_interval=0.2, **more)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the health is a value, nobody announces its change
            await asyncio.sleep(0.01)


async def test_it_connects_and_says_so(slack: SlackSandbox) -> None:
    """Health follows the connection: none, one of one, none."""
    socket = socket_of(slack)
    assert not socket.health.connected
    await socket.start()
    await until(lambda: socket.health.connected)
    assert socket.health.connections == 1
    assert not socket.health.crowded
    await socket.stop()
    assert not socket.health.connected
    await slack.wait_for(lambda: not slack.sockets.connections)


async def test_it_heals_after_refused_addresses(slack: SlackSandbox) -> None:
    """When the issued addresses are refused a few times, new ones are asked for until one works."""
    slack.faults.refuse_tickets(times=3)
    socket = socket_of(slack)
    await socket.start()
    await until(lambda: socket.health.connected)
    assert len(slack.calls_of("apps.connections.open")) >= 4
    await socket.stop()


async def test_it_comes_back_after_a_cut(slack: SlackSandbox) -> None:
    """A connection that breaks is replaced, also when the first new address is refused."""
    socket = socket_of(slack, pauses=PAUSES)
    await socket.start()
    await until(lambda: socket.health.connected)
    slack.faults.refuse_tickets(times=1)
    await slack.sockets.close()
    await until(lambda: slack.sockets.connections and socket.health.connected)
    await socket.stop()


async def test_slack_may_be_down_at_the_start(slack: SlackSandbox) -> None:
    """An unreachable Slack does not stop the start; the connection comes when Slack does."""
    slack.faults.http_500("apps.connections.open", times=3)
    socket = socket_of(slack)
    await socket.start()
    assert not socket.health.connected
    await until(lambda: socket.health.connected)
    await socket.stop()


async def test_a_wrong_token_is_said_at_once(slack: SlackSandbox) -> None:
    """A token that Slack rejects ends the start with Slack's word for it."""
    with pytest.raises(SlackRejected, match=r"SLACK_APP_TOKEN \(invalid_auth\)"):
        await socket_of(slack, "xapp-wrong").start()


@pytest.mark.parametrize("house", ["socket"], indirect=True)
async def test_a_kind_that_nobody_listens_to_is_no_failure(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """Slack may send what we never asked for: nothing fails or is decided over it, and the next command is answered."""
    asked = await ask(house.db)
    said = {
        "team": {"id": "T0SANDBOX"},
        "user": {"id": "U0GRACE"},
        "actions": [{"type": "button", "action_id": "signoff:approve", "block_id": "b"}],
        "callback_id": "signoff:approve",
        "workflow_step": {"step_id": "1"},
    }
    with caplog.at_level(logging.ERROR):
        for kind in ("workflow_step_edit", "shortcut", "message_action", "nonesuch"):
            await house.slack.sockets.send("interactive", {"type": kind, **said}, True, 0.1)
        assert (await house.slack.person("U0GRACE").command("/approvals", "", "C0REVIEW")).acked
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert await house.status(asked.request_id) == "waiting"


async def test_forgotten_connections_are_warned_about(
    slack: SlackSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """When Slack counts more connections than ours, another program receives some clicks: a warning is logged."""
    first, second = socket_of(slack), socket_of(slack)
    await first.start()
    await until(lambda: first.health.connected)
    with caplog.at_level(logging.WARNING):
        await second.start()
        await until(lambda: second.health.connected)
    assert second.health.crowded
    assert any(getattr(record, "action", "") == "socket_mode_crowded" for record in caplog.records)
    await first.stop()
    await second.stop()


async def test_no_ticket_is_logged(slack: SlackSandbox, caplog: pytest.LogCaptureFixture) -> None:
    """A refused address is logged in one line, without the ticket in it."""
    slack.faults.refuse_tickets(times=2)
    socket = socket_of(slack)
    with caplog.at_level(logging.INFO):
        await socket.start()
        await until(lambda: socket.health.connected)
        await socket.stop()
    texts = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("slackbot.slack.socket_mode")
    ]
    assert any("Failed to connect" in text for text in texts)
    assert not any("ticket=" in text and "ticket=…" not in text for text in texts)
    assert not any(
        record.exc_info for record in caplog.records if record.name.startswith("slackbot.slack.socket_mode")
    )


def handshakes(slack: SlackSandbox) -> int:
    return len(slack.calls_of("apps.connections.open"))


@pytest.mark.parametrize("kind", ["too_many_websockets", "cut_after_hello", "refresh_requested", "warning"])
async def test_a_connection_that_slack_refuses_is_not_opened_again_at_once(
    slack: SlackSandbox, kind: str
) -> None:
    """Whatever ends new connections, the pauses double up to the longest one; and then it connects by itself."""
    fault = (
        slack.faults.too_many_websockets(times=None)
        if kind == "too_many_websockets"
        else slack.faults.cut_after_hello(times=None)
        if kind == "cut_after_hello"
        else slack.faults.ask_to_leave(kind, times=None)
    )
    socket = socket_of(slack, pauses=PAUSES)
    began = monotonic()
    await socket.start()
    await until(lambda: fault.hits >= 5)
    # 0.4 + 0.8 + 1.6 + 1.6; a routine replacement has its first pause forgiven
    assert monotonic() - began >= (2.8 if kind in ("refresh_requested", "warning") else 4.4)
    slack.faults.clear()
    await until(lambda: socket.health.connected and slack.sockets.connections)
    assert len(slack.sockets.connections) == 1
    assert handshakes(slack) <= fault.hits + 2
    await socket.stop()


async def test_operators_are_told_why_slack_refuses_connections(
    slack: SlackSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Health and log give Slack's reason and what to do, once per attempt, and until a connection lasts."""
    fault = slack.faults.too_many_websockets(times=3)
    socket = socket_of(slack, pauses=PAUSES)
    with caplog.at_level(logging.WARNING, "slackbot.slack.socket_mode"):
        await socket.start()
        await until(lambda: socket.health.refusal)
        assert "ten connections (too_many_websockets)" in str(socket.health.refusal)
        await until(lambda: socket.health.connected)
    assert socket.health.refusal is None
    refused = [record for record in caplog.records if getattr(record, "action", "") == "socket_mode_refused"]
    assert len(refused) == fault.hits == 3
    assert "give every environment an app of its own" in refused[0].getMessage()
    await socket.stop()


async def test_a_connection_that_lasted_is_replaced_at_once(slack: SlackSandbox) -> None:
    """Slack replaces connections every few hours: without a pause, and also when it asks twice."""
    socket = socket_of(slack, pauses=Pauses(Backoff(first=60.0, longest=60.0), short=0.2))
    await socket.start()
    await until(lambda: socket.health.connected)
    for _ in range(2):
        await asyncio.sleep(0.3)  # the measure itself: it has lasted
        [before] = slack.sockets.connections
        await slack.sockets.refresh()
        await until(lambda: socket.health.connected and slack.sockets.connections)
        [after] = slack.sockets.connections
        assert after is not before
    assert handshakes(slack) == 3
    await socket.stop()


async def test_a_pause_does_not_delay_the_stop(slack: SlackSandbox) -> None:
    """A service that is told to stop while it waits does not connect any more."""
    slack.faults.too_many_websockets()
    socket = socket_of(slack, pauses=Pauses(Backoff(first=60.0, longest=60.0)))
    await socket.start()
    await until(lambda: socket.health.refusal)
    began, opened = monotonic(), handshakes(slack)
    await socket.stop()
    assert monotonic() - began < 5
    assert handshakes(slack) == opened


def test_the_pauses_are_5_to_60_seconds() -> None:
    """They double, differ between processes, and never leave these bounds."""
    pauses = Pauses()
    assert pauses.short == 5
    for refusals in range(1, 2_000):
        assert 5 <= pauses.after(refusals) <= 60
    assert all(pauses.after(9) == 60 for _ in range(10))
    assert len({pauses.after(1) for _ in range(10)}) > 1
