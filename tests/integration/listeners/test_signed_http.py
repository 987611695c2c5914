"""The guard in front of Bolt: forged, stale, garbled and oversized requests, and what it lets through."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from prometheus_client import REGISTRY

from signoff_demo.sandbox import SignedRequest
from signoff_demo.sandbox.signed_http import signature
from slackbot.cards import ACTION_APPROVE
from slackbot.slack.listeners import new_app
from slackbot.slack.signed_http import MAX_BODY, MAX_SSL_CHECK, SignedEndpoint
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.manifest import EVENTS_PATH
from tests.integration.asking import TEAM, ask
from tests.integration.listeners.conftest import SIGNING_SECRET, House
from tests.stress.budget import full
from tests.stress.rounds import counted

Headers = list[tuple[bytes, bytes]]


async def post(house: House, body: bytes, headers: Headers) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.post(str(house.slack.request_url), content=body, headers=headers)


def signed(body: bytes, *, at: int | None = None, kind: str = "application/json") -> Headers:
    stamp = str(int(time.time()) if at is None else at)
    return [
        (b"content-type", kind.encode()),
        (b"x-slack-request-timestamp", stamp.encode()),
        (b"x-slack-signature", signature(SIGNING_SECRET, stamp, body).encode()),
    ]


def change(headers: Headers, name: bytes, value: bytes | None) -> Headers:
    rest = [(key, old) for key, old in headers if key != name]
    return rest if value is None else [*rest, (name, value)]


STAMP, SIGNATURE = b"x-slack-request-timestamp", b"x-slack-signature"
Mutation = Callable[[random.Random, bytes, Headers], tuple[bytes, Headers]]


def _bit(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    at = dice.randrange(len(body))
    return body[:at] + bytes([body[at] ^ (1 << dice.randrange(8))]) + body[at + 1 :], headers


def _cut(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    return body[: dice.randrange(len(body))], headers


def _grown(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    return body + dice.randbytes(dice.randrange(1, 50)), headers


def _stamp(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    odd = [
        b"",
        b"soon",
        b"1e9",
        b"-1",
        b"+1",
        b"NaN",
        b"0x10",
        "١٢٣".encode(),
        b"9" * 400,
        b"1.5",
        b"\xff\xfe",
    ]
    return body, change(headers, STAMP, dice.choice(odd))


def _other_time(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    return body, change(headers, STAMP, str(int(time.time()) + dice.choice([-5, -1, 1, 7])).encode())


def _stale(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    return body, signed(body, at=int(time.time()) + dice.choice([-3600, -302, 302, 3600]))


def _signature(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    forged = [
        b"",
        b"v0=",
        b"v0=" + b"0" * 64,
        b"v1=" + b"a" * 64,
        b"v0=" + b"\xe9" * 64,
        dice.randbytes(20).hex().encode(),
    ]
    return body, change(headers, SIGNATURE, dice.choice(forged))


def _shouted(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    return body, [(key, value.upper() if key == SIGNATURE else value) for key, value in headers]


def _missing(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    return body, change(headers, dice.choice([STAMP, SIGNATURE]), None)


def _doubled(dice: random.Random, body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    name = dice.choice([STAMP, SIGNATURE])
    return body, headers + [(key, value) for key, value in headers if key == name]


MUTATIONS: list[Mutation] = [
    _bit, _cut, _grown, _stamp, _other_time, _stale, _signature, _shouted, _missing, _doubled
]  # fmt: skip


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO), caplog.at_level(logging.WARNING, "httpx"):
        yield caplog


@pytest.mark.parametrize("rounds", [200, pytest.param(full(10_000), marks=pytest.mark.stress)])
async def test_no_mutated_request_gets_through(
    http_house: House, everything_logged: pytest.LogCaptureFixture, rounds: int
) -> None:
    """Every mutated click is answered 401, none reaches Bolt or the database, no byte of a body is logged."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown by pytest when the test fails
    dice = random.Random(seed)
    _, card = await http_house.asked()
    original = http_house.slack.person("U0GRACE").signed_click(card, ACTION_APPROVE)
    secret = b"PLANTED-IN-THE-BODY"
    body = original.body + b"&" + secret + b"=1"
    async with httpx.AsyncClient() as client:
        for _ in counted(range(rounds)):
            mutate = dice.choice(MUTATIONS)
            wrong, headers = mutate(dice, body, signed(body, kind="application/x-www-form-urlencoded"))
            answer = await client.post(str(http_house.slack.request_url), content=wrong, headers=headers)
            assert answer.status_code == 401, (mutate.__name__, headers)
    assert http_house.rows("SELECT count(*) FROM vote") == [(0,)]
    assert http_house.rows("SELECT count(*) FROM audit_event WHERE event LIKE 'vote%%'") == [(0,)]
    logged = "\n".join(record.getMessage() for record in everything_logged.records)
    assert secret.decode() not in logged
    assert "payload" not in logged
    assert "U0GRACE" not in logged


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b""),
        ("application/json", b"[]"),
        ("application/json", b"{"),
        ("application/json", b"[" * 100_000),
        ("application/json", b'"text"'),
        ("application/json", b"\xff\xfe{}"),
        ("application/json", b'{"event": 5, "authorizations": 7}'),
        ("application/x-www-form-urlencoded", b""),
        ("application/x-www-form-urlencoded", b"payload"),
        ("application/x-www-form-urlencoded", b"payload=%7B"),
        ("application/x-www-form-urlencoded", b"payload=%5B%5D"),
        ("application/x-www-form-urlencoded", b"payload=%FF"),
        ("application/x-www-form-urlencoded", b"hello=world"),
        ("application/x-www-form-urlencoded", b"command=%2Fagent&text=list"),
        ("application/json", b'{"type": "event_callback", "event": {}}'),
        ("application/json", b'{"type": "block_actions", "user": null, "actions": [{}], "container": {}}'),
        (
            "application/json",
            b'{"type": "block_actions", "user": {"id": "U1"}, "actions": [], "container": {}}',
        ),
        ("application/json", b'{"type": "block_actions", "user": {"id": "U1"}, "actions": [{}]}'),
        ("application/json", b'{"type": "view_submission", "user": {"id": "U1"}}'),
        ("", b"\x00\x01"),
    ],
)
async def test_signed_nonsense_is_a_400(http_house: House, kind: str, body: bytes) -> None:
    """What is signed and cannot be understood is the sender's fault, not ours."""
    assert (await post(http_house, body, signed(body, kind=kind))).status_code == 400


@pytest.mark.parametrize(
    "kind",
    [
        "workflow_step_edit",
        "interactive_message",
        "dialog_submission",
        "dialog_cancellation",
        "dialog_suggestion",
        "block_suggestion",
        "view_closed",
        "url_verification",
        "nonesuch",
    ],
)
async def test_a_kind_that_nobody_listens_to_is_no_failure(http_house: House, kind: str) -> None:
    """Slack may send what we never asked for: it is acknowledged, as over Socket Mode, and nothing is done."""
    actions = [{"name": "a", "type": "button", "action_id": "a", "block_id": "b"}]
    said = {
        "type": kind,
        "team": {"id": "T0SANDBOX"},
        "user": {"id": "U0GRACE"},
        "actions": actions,
        "view": {"type": "modal", "callback_id": "signoff:approve", "private_metadata": ""},
        "callback_id": "signoff:approve",
        "action_id": "signoff:approve",
        "block_id": "b",
        "workflow_step": {"step_id": "1"},
        "challenge": "x",
    }
    for some in (said, {"type": kind}):
        body = json.dumps(some).encode()
        answer = await post(http_house, body, signed(body))
        assert (answer.status_code, answer.content) == (
            200,
            answer.content if kind == "url_verification" else b"",
        )


@pytest.mark.parametrize("kind", ["shortcut", "message_action"])
async def test_a_shortcut_that_nobody_knows_does_nothing(http_house: House, kind: str) -> None:
    """It is acknowledged, also with a button's id; without what its listener reads it is a 400."""
    asked = await ask(http_house.db)
    said = {
        "type": kind,
        "team": {"id": "T0SANDBOX"},
        "user": {"id": "U0GRACE"},
        "actions": [{"type": "button", "action_id": "signoff:approve", "block_id": "b"}],
        "callback_id": "signoff:approve",
        "trigger_id": "1.2.3",
        "channel": {"id": "C0REVIEW"},
        "message": {"ts": "1.2", "text": "hello"},
    }
    body = json.dumps(said).encode()
    assert (await post(http_house, body, signed(body))).status_code == 200
    assert await http_house.status(asked.request_id) == "waiting"
    body = json.dumps({"type": kind}).encode()
    assert (await post(http_house, body, signed(body))).status_code == 400


@pytest.mark.parametrize("body", [b"ssl_check=1", b"token=Jhj5dZrVaK7ZwHHjRyZWjbDl&ssl_check=1"])
async def test_a_check_of_the_certificate_is_a_200(http_house: House, body: bytes) -> None:
    """Slack's `ssl_check` is answered 200, signed or not; nothing else can be reached by claiming to be one."""
    kind = "application/x-www-form-urlencoded"
    for headers in ([(b"content-type", kind.encode())], signed(body, kind=kind)):
        answer = await post(http_house, body, headers)
        assert (answer.status_code, answer.content) == (200, b"")
    for more in (b"&command=%2Fagent", b"&payload=%7B%7D", b"&token=" + b"x" * MAX_SSL_CHECK):
        assert (await post(http_house, body + more, [])).status_code == 401
    assert (await post(http_house, b"ssl_check=2", [])).status_code == 401


async def test_withheld_events_are_counted(
    http_house: House, everything_logged: pytest.LogCaptureFixture
) -> None:
    """`app_rate_limited` is answered 200, a warning in the log, and counted; one that is not signed is none of it."""
    body = json.dumps(
        {"type": "app_rate_limited", "team_id": TEAM, "minute_rate_limited": 1518467820}
    ).encode()
    before = REGISTRY.get_sample_value("signoff_slack_events_withheld_total") or 0.0
    assert (await post(http_house, body, signed(body))).status_code == 200
    assert (await post(http_house, body, [])).status_code == 401
    assert REGISTRY.get_sample_value("signoff_slack_events_withheld_total") == before + 1
    [warned] = [record for record in everything_logged.records if "withholds events" in record.getMessage()]
    assert warned.levelname == "WARNING"


async def test_too_long_a_body_is_not_read_to_its_end(http_house: House) -> None:
    """More than a megabyte is refused, with or without a true signature."""
    body = json.dumps({"type": "event_callback", "padding": "x" * MAX_BODY}).encode()
    assert (await post(http_house, body, signed(body))).status_code == 413


async def test_the_window_is_five_minutes(http_house: House) -> None:
    """A request 299 s away is taken, one 301 s old is a replay."""
    body = json.dumps({"type": "url_verification", "challenge": "c"}).encode()
    now = int(time.time())
    assert (await post(http_house, body, signed(body, at=now + 299))).status_code == 200
    assert (await post(http_house, body, signed(body, at=now - 301))).status_code == 401
    assert await http_house.slack.http.verify_url()


async def test_only_posts_are_taken(http_house: House) -> None:
    """No GET does anything."""
    async with httpx.AsyncClient() as client:
        assert (await client.get(str(http_house.slack.request_url))).status_code == 405


async def test_a_command_that_mentions_a_payload_arrives(http_house: House) -> None:
    """Words in a command's text do not change how it is read."""
    answer = await http_house.slack.person("U0ADA").command(
        "/agent", "run refunds send the payload", "C0AGENTS"
    )
    assert "has started" in str(answer.response)
    assert http_house.rows("SELECT task FROM agent_run") == [("send the payload",)]


async def test_a_replayed_click_is_one_vote(http_house: House) -> None:
    """The same signed bytes three times inside the window: success each time, one vote."""
    _, card = await http_house.asked()
    click = http_house.slack.person("U0GRACE").signed_click(card, ACTION_APPROVE)
    again = SignedRequest(click.url, click.body, click.headers | {"X-Slack-Retry-Num": "1"})
    assert all([(await http_house.slack.send(each)).acked for each in (click, click, again)])
    assert http_house.rows("SELECT count(*) FROM vote") == [(1,)]


async def test_a_failing_listener_is_a_500(http_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that could not be stored is answered 500, so that Slack sends it again."""

    async def broken(*_: object, **__: object) -> bool:
        raise RuntimeError("the database is away")

    monkeypatch.setattr("slackbot.slack.listeners.messages._reply", broken)
    message = {"type": "message", "user": "U0ADA", "team": TEAM, "text": "hello", "channel": "C0AGENTS"}
    event = message | {"ts": "1700000001.000100", "thread_ts": "1700000000.000100"}
    payload = {
        "type": "event_callback",
        "team_id": TEAM,
        "api_app_id": "A1",
        "event_id": "Ev1",
        "event": event,
    }
    body = json.dumps(payload).encode()
    assert (await post(http_house, body, signed(body, kind="application/json"))).status_code == 500


def test_there_is_no_edge_without_a_secret() -> None:
    """A forgotten signing secret stops the start instead of letting everybody in."""
    app = new_app(SlackClient("xoxb-1", "http://127.0.0.1:1/"), team_id="T", bot_user_id="U", bot_id="B")
    with pytest.raises(ValueError, match="signing secret"):
        SignedEndpoint(app, "")
    assert EVENTS_PATH == "/slack/events"
