"""Facts that Signoff looks up itself for programs, at an address that policy names."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from agent.domain.checkpoints import load
from agent.domain.errors import Refused
from agent.domain.facts import Facts, FactsLookup, FactsSource
from agent.domain.people import Standing
from agent.domain.webhook_urls import networks
from agent.runtime.judging.edits import judge_edit
from agent.store import views
from agent.usecases import policy as policies
from agent.usecases.requests import EditAttempt
from signoff.client.webhook import is_from_signoff
from signoff.values import Action, Person
from slackbot.outbound import facts_lookup
from slackbot.outbound.facts_lookup import FactsLookups
from tests.integration.asking import column
from tests.integration.web.conftest import Street, shown, until
from tests.integration.web.test_executors import claim, kind
from tests.integration.web.test_facts import approve, opened

LIE: dict[str, Any] = {"action": "refund", "arguments": {"order_id": 7, "amount": 1}}
SECRET = "f4cts-secret"
LOOPBACK = networks("127.0.0.0/8")


@dataclass
class Shop:
    """The operator's own service, which knows the prices."""

    url: str = ""
    status: int = 200
    body: bytes = b'{"price": 1500}'
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    hang: asyncio.Event | None = None
    slow: float = math.inf
    """How many of those who ask first wait."""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((dict(request.headers), await request.read()))
        if self.hang is not None and len(self.asked) <= self.slow:
            await self.hang.wait()
        return web.Response(status=self.status, body=self.body, headers=self.headers)


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    app = web.Application()
    app.router.add_post("/facts", shop.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    shop.url = f"http://127.0.0.1:{runner.addresses[0][1]}/facts"
    yield shop
    await runner.cleanup()


@pytest.fixture
def policy(shop: Shop) -> str:
    return f"""
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
allow_edit = true
editor_may_approve = true

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"
when = "facts.price > 1000.0"

[[facts]]
tool = "refund"
url = "{shop.url}"
"""


@pytest.fixture
def settings() -> dict[str, str]:
    return {"SIGNOFF_FACTS_SECRET": SECRET, "SIGNOFF_WEBHOOK_NETWORKS": "127.0.0.0/8"}


async def test_signoff_asks_whoever_knows_it_and_again_at_the_claim(site: Street, shop: Shop) -> None:
    """The post is signed and has the arguments; the program's own facts count for nothing; other ones void."""
    program = await site.program("billing", ["request", "facts"])
    first = await opened(await program.ask(**LIE, facts={"price": 1}))
    headers, body = shop.asked[0]
    assert is_from_signoff(SECRET, headers, body)
    assert json.loads(body) == {
        "tool": "refund",
        "arguments": LIE["arguments"],
        "agent": "billing",
        "requester": "U0ADA",
    }
    assert (first["facts"], first["facts_source"]) == ({"price": 1500}, "signoff")
    assert "Facts, looked up by Signoff at " in shown(site.house.now(await site.house.card()))
    await approve(site, first["id"])
    shop.status = 500
    away = await claim(program)
    assert (kind(away), away.headers["Retry-After"]) == ((503, "facts-away"), "5")
    shop.status, shop.body = 200, b'{"price": 2500}'
    changed = await claim(program)
    assert kind(changed) == (409, "facts-changed")
    assert changed.json()["changes"] == [{"path": "$.price", "before": 1500, "after": 2500}]
    await approve(site, changed.json()["id"])
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]
    assert (await claim(program)).status_code == 200
    shop.body = b'{"price": 10}'
    unasked = (await program.ask("r-2", **LIE)).json()
    assert (unasked["status"], unasked["facts_source"]) == ("not_required", "signoff")
    recorded = {event: detail for _, event, detail in await site.events("key:billing")}["review.not_required"]
    assert recorded["facts"] == Facts({"price": 10}).canonical_digest
    shop.status = 500
    unknown = await opened(await program.ask("r-3", **LIE))
    assert (unknown["facts"], unknown["facts_source"]) == (None, "signoff")


@pytest.mark.parametrize(("told", "outcome"), [(1500, 200), (1, 409)], ids=["true", "false"])
async def test_a_look_up_that_policy_names_later_applies_to_what_was_approved(
    site: Street, shop: Shop, policy: str, told: int, outcome: int
) -> None:
    """The claim takes Signoff's own facts instead of the program's word: people are asked again if they differ."""
    without, _, _ = policy.partition("[[facts]]")
    await policies.apply(site.db, load(without.replace("> 1000.0", "> 0.0"), filename="before"), by="cli:ada")
    program = await site.program("billing", ["request", "facts"])
    first = await opened(await program.ask(**LIE, facts={"price": told}))
    assert first["facts_source"] == "program"
    await approve(site, first["id"])
    in_force = load(policy, filename="after", no_lookups=None)
    await policies.apply(site.db, in_force, by="cli:ada")
    claimed = await claim(program, facts={"price": told})
    assert claimed.status_code == outcome
    if outcome == 409:
        assert kind(claimed) == (409, "facts-changed")
        assert claimed.json()["changes"] == [{"path": "$.price", "before": 1, "after": 1500}]


async def test_an_edit_is_judged_on_facts_that_are_looked_up_for_it(site: Street, shop: Shop) -> None:
    """The facts about the arguments before it say nothing; without facts there is no edit."""
    asked = await opened(await (await site.program()).ask(**LIE))
    async with site.db.connection() as connection:
        own = await views.client_request(connection, "key:crm", "r-1")
        assert own is not None
        view = await views.request_view(connection, own.request_id)
    assert view is not None
    assert str(view.id) == asked["id"]
    services = site.service._services
    shop.body = b'{"price": 1200}'
    attempt = EditAttempt(view.id, 1, Standing(Person("T0DEMO", "U0GRACE"), frozenset()), "test")
    judged = await judge_edit(services, view, {"order_id": 8, "amount": 1}, attempt)
    assert (judged.facts, judged.facts_source) == ({"price": 1200}, FactsSource.SIGNOFF)
    assert json.loads(shop.asked[-1][1])["arguments"]["order_id"] == 8
    shop.status = 404
    with pytest.raises(Refused, match="could not be looked up"):
        await judge_edit(services, view, {"order_id": 9, "amount": 1}, attempt)


@pytest.fixture
async def lookups() -> AsyncIterator[FactsLookups]:
    opened = FactsLookups(SECRET, LOOPBACK)
    yield opened
    await opened.close()


async def look_up(lookups: FactsLookups, url: str, principal: str = "key:billing", **more: Any) -> Facts:
    action = Action("refund", "external", {"order_id": 7})
    return await lookups.look_up(FactsLookup("refund", url), action, "billing", None, principal, **more)


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (404, b"{}", {}),
        (302, b"{}", {"Location": "http://127.0.0.1:1/"}),
        (200, b"[1]", {}),
        (200, b"", {}),
        (200, b'{"price": NaN}', {}),
        (200, b'{"price": 1, "price": 2}', {}),
        (200, b'{"note": "\\u0000"}', {}),
        (200, b'{"a": ' * 70 + b"1" + b"}" * 70, {}),
        (200, b'{"text": "' + b"x" * 66_000 + b'"}', {}),
        (200, b"{}", {"Content-Encoding": "gzip"}),
    ],
)
async def test_an_answer_that_cannot_be_used_is_a_failure(
    lookups: FactsLookups, shop: Shop, status: int, body: bytes, headers: dict[str, str]
) -> None:
    """Redirects are not followed, and nothing is read that is too large, broken, ambiguous or compressed."""
    shop.status, shop.body, shop.headers = status, body, headers
    assert await look_up(lookups, shop.url) == facts_lookup.FAILED
    assert len(shop.asked) == 1


async def test_who_answers_too_late_has_said_nothing(lookups: FactsLookups, shop: Shop) -> None:
    """A click waits for a look-up no longer than it can."""
    shop.hang = asyncio.Event()
    assert await look_up(lookups, shop.url, within=0.1) == facts_lookup.FAILED
    shop.hang.set()


async def test_a_slow_url_delays_neither_another_url_nor_another_key(
    lookups: FactsLookups, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many look-ups of one key hang, those of another key and of another URL take their own turns."""
    monkeypatch.setattr(facts_lookup, "TIMEOUT", 30.0)
    shop.hang = asyncio.Event()
    flood = [asyncio.create_task(look_up(lookups, shop.url, "key:flood", within=30.0)) for _ in range(60)]
    await until(lambda: _is(len(shop.asked) == facts_lookup.OF_ONE_KEY))
    shop.slow = facts_lookup.OF_ONE_KEY
    others = [look_up(lookups, shop.url, "key:honest"), look_up(lookups, f"{shop.url}?other", "key:flood")]
    async with asyncio.timeout(10):
        assert [facts.values for facts in await asyncio.gather(*others)] == [{"price": 1500}] * 2
    assert len(shop.asked) == facts_lookup.OF_ONE_KEY + 2
    for each in flood:
        each.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    shop.hang.set()


async def test_a_key_whose_look_ups_hang_delays_no_other_program(site: Street, shop: Shop) -> None:
    """Over HTTP: while all look-ups of one API key hang, the question of another key has its facts."""
    flooding, honest = await site.program("flood"), await site.program("honest")
    shop.hang, shop.slow = asyncio.Event(), facts_lookup.OF_ONE_KEY
    flood = [asyncio.create_task(flooding.ask(f"r-{number}", **LIE)) for number in range(12)]
    await until(lambda: _is(len(shop.asked) == facts_lookup.OF_ONE_KEY))
    asked = await opened(await honest.ask(**LIE))
    assert (asked["facts"], [each.done() for each in flood]) == ({"price": 1500}, [False] * 12)
    assert len(shop.asked) == facts_lookup.OF_ONE_KEY + 1
    shop.hang.set()
    assert {each.status_code for each in await asyncio.gather(*flood)} == {201}


async def test_a_url_that_times_out_rests(
    lookups: FactsLookups, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a whole time limit without an answer it fails at once for a while; then one look-up tries it again."""
    monkeypatch.setattr(facts_lookup, "TIMEOUT", 30.0)
    shop.hang = asyncio.Event()
    for _ in range(2):  # a click's limit says nothing
        assert await look_up(lookups, shop.url, within=0.1) == facts_lookup.FAILED
    assert len(shop.asked) == 2
    monkeypatch.setattr(facts_lookup, "TIMEOUT", 0.5)
    while not lookups._resting:  # a part of it may have been spent on something else
        assert await look_up(lookups, shop.url) == facts_lookup.FAILED
    asked = len(shop.asked)
    for _ in range(20):
        assert await look_up(lookups, shop.url) == facts_lookup.FAILED
    assert len(shop.asked) == asked
    monkeypatch.setattr(facts_lookup, "TIMEOUT", 30.0)
    lookups._resting = dict.fromkeys(lookups._resting, 0.0)
    trying = asyncio.create_task(look_up(lookups, shop.url, within=30.0))
    await until(lambda: _is(len(shop.asked) == asked + 1))
    assert await look_up(lookups, shop.url) == facts_lookup.FAILED
    assert len(shop.asked) == asked + 1
    shop.hang.set()
    assert (await trying).values == (await look_up(lookups, shop.url)).values == {"price": 1500}


async def _is(what: bool) -> bool:
    return what


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest", "https://[::1]/facts", "ftp://shop.example/", "https://u:p@shop/"],
)
async def test_nothing_is_posted_where_nothing_may_go(lookups: FactsLookups, url: str) -> None:
    """Addresses with secrets of the machine are barred whatever the operator lists."""
    assert await look_up(lookups, url) == facts_lookup.FAILED


async def test_this_machine_is_barred_unless_it_is_listed(shop: Shop) -> None:
    """So is everything without a secret to sign with."""
    for secret, allowed in ((SECRET, ()), (None, LOOPBACK)):
        opened = FactsLookups(secret, allowed)
        assert await look_up(opened, shop.url) == facts_lookup.FAILED
        await opened.close()
    assert shop.asked == []
