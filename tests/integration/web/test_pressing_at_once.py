"""Two windows of the sandbox's page press at once: each gets the service's own answer, in plain words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.integration import asking
from tests.integration.service.conftest import House, http_house
from tests.integration.web.visiting import Porch, open_porch

__all__ = ["http_house"]

APPROVE, REJECT = "signoff:approve", "signoff:reject"
_CODE = re.compile(r"[(\[{]'|['\"]signoff:|Error|Traceback|\bNone\b|[A-Z]0[A-Z]+|\d+ elements")
"""What no person should read: reprs, ids of elements, names of exceptions."""


@pytest.fixture
async def porch(http_house: House) -> Porch:
    return await open_porch(http_house, policy=asking_policy(), SIGNOFF_ROLES="web,worker,scheduler")


def asking_policy() -> str:
    return '[defaults]\nchannel = "C0REVIEW"\napprovers = ["S0FINANCE"]\n'


@dataclass
class Window:
    """One browser window of a person: it presses what it has drawn, over the page's own HTTP interface."""

    url: str
    user: str
    session: aiohttp.ClientSession

    async def get(self, path: str) -> Any:
        async with self.session.get(f"{self.url}/sandbox/{path}") as answer:
            return await answer.json()

    async def act(self, what: str, **body: Any) -> dict[str, Any]:
        sent = {"user": self.user, **body}
        async with self.session.post(
            f"{self.url}/sandbox/act/{what}", json=sent, headers={"X-Sandbox": "1"}
        ) as answer:
            said: dict[str, Any] = await answer.json()
        assert said["ok"] or not _CODE.search(said["error"]), said
        return said

    async def card(self) -> dict[str, Any]:
        [card] = [m for m in (await self.get("channels/C0REVIEW/messages"))["messages"] if m.get("blocks")]
        return dict(card)

    async def press(self, drawn: dict[str, Any], action_id: str) -> dict[str, Any]:
        """`drawn` is a message or a view."""
        [(block, element)] = [
            each for each in _elements(drawn["blocks"]) if each[1]["action_id"] == action_id
        ]
        place = {"channel": "C0REVIEW", "ts": drawn["ts"]} if "ts" in drawn else {"view_id": drawn["id"]}
        pressed = {"block_id": block["block_id"], "action_id": action_id, "value": element.get("value")}
        return await self.act("click", **place, **pressed)

    async def view(self) -> dict[str, Any] | None:
        stack = (await self.get(f"people/{self.user}/views"))["stack"]
        return stack[-1] if stack else None


def _elements(blocks: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for block in blocks:
        for element in block.get("elements", []) if block["type"] == "actions" else []:
            yield block, element


@asynccontextmanager
async def windows(porch: Porch, *users: str) -> AsyncIterator[list[Window]]:
    async with aiohttp.ClientSession() as session:
        yield [Window(porch.house.slack.url, user, session) for user in users]


async def test_whoever_presses_an_old_card_reads_what_has_been_decided(porch: Porch) -> None:
    """The card has changed since the second window drew it: the press is delivered, and Signoff answers it."""
    await porch.asked(7, asking.rule(risk="low"))
    await porch.house.card()
    slack = porch.house.slack
    async with windows(porch, "U0GRACE", "U0LINUS") as (grace, linus):
        drawn = await linus.card()
        assert (await grace.press(await grace.card(), APPROVE))["ok"]
        await slack.wait_for(lambda: "Approved" in str(slack.messages("C0REVIEW")[0]["blocks"]))
        late = await linus.press(drawn, APPROVE)
        assert (late["ok"], late["error"]) == (True, None)
        said = await slack.wait_for(lambda: slack.ephemeral("U0LINUS"))
        assert "already" in said[-1]["text"]
    assert await asking.column(porch.house.db, "SELECT verdict::text FROM vote") == ["approve"]


async def test_two_who_press_at_once_are_both_answered(porch: Porch) -> None:
    """Whatever order they arrive in, one decides, the other reads the outcome, and nobody sees a fault."""
    for order in range(5):
        await porch.asked(order, asking.rule(risk="low"))
        await porch.house.card(order)
    slack = porch.house.slack
    async with windows(porch, "U0GRACE", "U0LINUS") as (grace, linus):
        drawn = (await grace.get("channels/C0REVIEW/messages"))["messages"]
        pressed = [window.press(card, APPROVE) for card in drawn for window in (grace, linus)]
        answers = await asyncio.gather(*pressed)
    assert [answer["error"] for answer in answers] == [None] * 10
    await slack.wait_for(lambda: all("Approved" in str(m["blocks"]) for m in slack.messages("C0REVIEW")))
    decided = await asking.column(porch.house.db, "SELECT count(*) FROM decision GROUP BY request_id")
    assert decided == [1] * 5


async def test_home_and_forms_of_two_windows(porch: Porch) -> None:
    """An old App Home is answered; a form that another window has sent is closed, and says so in one sentence."""
    await porch.asked(7, asking.rule(risk="low"))
    slack, card = porch.house.slack, await porch.house.card()
    async with windows(porch, "U0GRACE", "U0GRACE") as (one, two):
        await one.act("home")
        home = await slack.wait_for(lambda: _showing(slack.home("U0GRACE"), APPROVE))
        await one.press(await one.card(), REJECT)
        view = await slack.wait_for(lambda: _showing(slack.views("U0GRACE"), "Reject"))
        form = (await two.view()) or {}
        assert form["id"] == view[-1]["id"]
        values = {
            block["block_id"]: {block["element"]["action_id"]: {"type": "plain_text_input", "value": "No"}}
            for block in form["blocks"]
            if block["type"] == "input" and block["element"]["type"] == "plain_text_input"
        }
        sent = {"view_id": form["id"], "hash": form["hash"], "values": values}
        assert (await one.act("submit", **sent))["ok"]
        for what, body in (("submit", sent), ("close", {"view_id": form["id"]})):
            late = await two.act(what, **body)
            assert (late["ok"], late["error"]) == (False, "This form has been closed.")
        await slack.wait_for(lambda: not _showing(slack.home("U0GRACE"), APPROVE))
        assert (await two.press(home, APPROVE))["ok"]
        await slack.wait_for(lambda: _showing(slack.views("U0GRACE"), "already"))
        slack.workspace.delete(slack.workspace.channels["C0REVIEW"], card["ts"])
        gone = await two.press(card, APPROVE)
        assert gone["error"] == "This message has been deleted."
    assert await asking.column(porch.house.db, "SELECT verdict::text FROM vote") == ["reject"]


def _showing(shown: Any, words: str) -> Any:
    return shown if words in str(shown) else None


async def test_no_mistake_of_a_page_is_answered_with_code(porch: Porch) -> None:
    """Unknown people, places, buttons and forms, broken requests, and an absent service: each is one sentence."""
    await porch.asked(7)
    card = await porch.house.card()
    here = {"channel": "C0REVIEW", "ts": card["ts"]}
    async with windows(porch, "U0GRACE", "U0NOBODY") as (grace, nobody):
        mistakes: list[tuple[Window, str, dict[str, Any]]] = [
            (nobody, "say", {"channel": "C0REVIEW", "text": "hi"}),
            (grace, "say", {"channel": "C0NOWHERE", "text": "hi"}),
            (grace, "say", {"channel": "C0REVIEW", "text": "hi", "thread_ts": "1.1"}),
            (grace, "say", {"channel": "C0REVIEW", "text": 5}),
            (grace, "command", {"command": "/approvals", "channel": "C0NOWHERE"}),
            (grace, "command", {"command": "/nothing", "channel": "C0REVIEW"}),
            (grace, "click", {**here, "block_id": "b", "action_id": "gone"}),
            (grace, "click", {**here, "block_id": None}),
            (grace, "click", {**here, "block_id": "b", "action_id": APPROVE, "state": [1]}),
            (grace, "click", {"channel": "C0REVIEW", "ts": "1.1", "block_id": "b", "action_id": APPROVE}),
            (grace, "click", {"view_id": "V0", "block_id": "b", "action_id": APPROVE}),
            (nobody, "home", {}),
            (grace, "submit", {"view_id": "V0"}),
            (grace, "close", {"view_id": "V0"}),
            (grace, "close", {}),
        ]
        for window, what, body in mistakes:
            said = await window.act(what, **body)
            assert (said["ok"], said["error"][-1]) == (False, "."), (what, body, said)
        await porch.service.stop()
        away = await grace.press(await grace.card(), APPROVE)
        assert (away["ok"], away["error"]) == (False, "operation timed out")
