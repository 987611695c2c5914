"""What is shown as money: what policy declares, on every surface, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from agent.domain import checkpoints
from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from agent.usecases import policy as policies
from signoff.client import AsyncApprovalClient, Review
from signoff_demo.actors import choose
from tests.integration.asking import column
from tests.integration.service.conftest import House, http_house
from tests.integration.web.visiting import ADA, Porch, open_porch

__all__ = ["http_house"]

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
money = ["args.fee"]

[[checkpoint]]
checkpoint_id = "orders"
action_pattern = "order_goods"
description_template = "Order {args.amount} of {args.item}"
money = ["facts.price", "args.lines.cost"]
risk = "high"
allow_edit = true
editor_may_approve = true
"""
ORDER: dict[str, Any] = {
    "item": "desk",
    "amount": 1,
    "lines": [{"cost": 1899, "total": 4711}, {"cost": "20.5"}],
}
FACTS: dict[str, Any] = {"price": 1919.5, "currency": "EUR", "balance": 7000}
TITLE = "Order 1 of “desk”"
SHOWN = ("cost: 1,899.00", "cost: 20.50", "total: 4711", "amount: 1", "balance: 7000")
PRICE = "price: 1,919.50 EUR"


def _texts(value: Any) -> str:
    """Every text of blocks, in order; bold labels and their values run together."""
    if isinstance(value, dict):
        return "".join(
            each if name in ("text", "emoji") and isinstance(each, str) else _texts(each)
            for name, each in value.items()
        )
    return "".join(_texts(each) for each in value) if isinstance(value, list) else ""


@pytest.fixture
async def porch(http_house: House) -> Porch:
    return await open_porch(http_house, policy=POLICY, SIGNOFF_ROLES="web,worker,scheduler")


def _with(shown: str, words: str) -> str | None:
    return shown if words in shown else None


def _buttons(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and value.get("type") == "button":
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _buttons(each)


async def ask(porch: Porch, action: str, arguments: dict[str, Any], **more: Any) -> Review:
    """Through our client, as programs do."""
    scopes = [Scope.REQUEST, Scope.FACTS]
    key = await api_keys.create(porch.house.db, f"crm-{action}", scopes, by="test", owner=ADA)
    async with AsyncApprovalClient(f"http://127.0.0.1:{porch.service.port}", key) as client:
        review = await client.submit(action, arguments, **more)
        assert isinstance(review, Review)
        return review


async def opened(porch: Porch, card: dict[str, Any], action_id: str) -> dict[str, Any]:
    """The modal behind a button of the card, once it is filled in."""
    slack = porch.house.slack
    await slack.person("U0GRACE").click(card, action_id)

    def filled() -> dict[str, Any] | None:
        return next((each for each in slack.views("U0GRACE") if TITLE in _texts(each["blocks"])), None)

    return await slack.wait_for(filled)


async def test_an_integer_is_no_money_by_its_name(porch: Porch) -> None:
    """An order of one desk is titled and shown as 1 on every surface, and declared prices as money."""
    slack, asked = porch.house.slack, await ask(porch, "order_goods", ORDER, facts=FACTS)
    grace = slack.person("U0GRACE")
    card = await porch.house.card()
    assert TITLE in card["text"]
    assert "(price 1,919.50 EUR)" in card["text"]
    [confirm] = [each["confirm"] for each in _buttons(card) if each["action_id"] == "signoff:approve"]
    assert f"{TITLE} (price 1,919.50 EUR)" in confirm["text"]["text"]

    async def modal(action_id: str) -> str:
        view = await opened(porch, card, action_id)
        await grace.close(view, clear=True)
        return _texts(view["blocks"])

    grace.open_home()
    home = await slack.wait_for(lambda: _with(_texts(slack.home("U0GRACE")), TITLE))
    everything = {*SHOWN, PRICE}
    for words, expected in (
        (_texts(card["blocks"]), everything - {"amount: 1"}),  # card and Home have it in the title alone
        (await modal("signoff:details"), everything),
        (await modal("signoff:reject"), everything),
        (home, everything - {"amount: 1"}),
    ):
        assert TITLE in words
        assert {value for value in everything if value in words} == expected, words
        # What the client wrote stands below, as its own words.
        assert not re.search(r"amount: 1\.00|7,000|4,711", words.partition("Other context of the agent")[0])
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert f"{TITLE} " in reader.words
    assert "price 1,919.50 EUR" in reader.words
    await reader.open(f"/inbox/requests/{asked.id}")
    for value in (*SHOWN, PRICE):
        assert value.replace(":", "") in reader.words.replace(":", ""), (value, reader.words)
    assert asked.arguments == ORDER  # programs read the numbers themselves


async def test_an_edit_shows_the_money_of_its_checkpoint(porch: Porch) -> None:
    """Before and after stand on card, thread and page as money where policy declares it, else as they are."""
    slack, asked = porch.house.slack, await ask(porch, "order_goods", ORDER)
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{asked.id}")
    card = await porch.house.card()
    grace = slack.person("U0GRACE")
    await choose(slack, "U0GRACE", card, "signoff:edit")
    view = slack.views("U0GRACE")[-1]
    edited = {**ORDER, "amount": 2, "lines": [{"cost": 1000, "total": 4712}, *ORDER["lines"][1:]]}
    fields = {
        block["label"]["text"]: block["block_id"] for block in view["blocks"] if block["type"] == "input"
    }
    typed = {"amount": "2", "lines": json.dumps(edited["lines"])}
    values = {fields[name]: {"signoff:field": value} for name, value in typed.items()}
    answer = await grace.submit(view, values)
    assert (answer.error, answer.errors) == (None, {})
    changes = ("amount: 1 → 2", "lines[0].cost: 1,899.00 → 1,000.00", "lines[0].total: 4711 → 4712")
    words = await slack.wait_for(lambda: _with(_texts(porch.house.now(card)["blocks"]), "→"))
    line = await slack.wait_for(
        lambda: _with(str([_texts(m) for m in slack.thread("C0REVIEW", card["ts"])[1:]]), "→")
    )
    for change in changes:
        assert change in words
        assert change in line
    assert "Order 2 of “desk”" in words
    await reader.open(f"/inbox/requests/{asked.id}")
    assert "1,000.00" in reader.words


async def test_a_generated_title_shows_declared_money_only(porch: Porch) -> None:
    """Without a template and words of its own, a program's question is titled by the service, under its policy."""
    await ask(porch, "pay", {"amount": 1500, "fee": 2.5})
    card = await porch.house.card()
    assert "pay · amount: 1500, fee: 2.50" in card["text"]
    assert "1,500.00" not in _texts(card["blocks"])
    await ask(porch, "settle", {"amount": 1500, "fee": 2.5}, description="Settle amount: 1,500.00")
    other = await porch.house.card(1)
    assert "settle · amount: 1500, fee: 2.50" in other["text"]
    said = _texts(other["blocks"]).partition("The agent's own words (not checked):")
    assert ("1,500.00" in said[0], "Settle amount: 1,500.00" in said[2]) == (False, True)


async def test_an_open_request_keeps_its_money(porch: Porch) -> None:
    """A policy put in force later changes nothing of what people see of a request that is open."""
    await ask(porch, "order_goods", ORDER, facts=FACTS)
    card = await porch.house.card()
    other = POLICY.replace('"facts.price", "args.lines.cost"', '"args.amount", "facts.balance"')
    await policies.apply(porch.house.db, checkpoints.load(other, filename="x.toml"), by="test")
    words = _texts((await opened(porch, card, "signoff:details"))["blocks"])
    for value in (*SHOWN, PRICE):
        assert value in words, (value, words)
    [stored] = await column(porch.house.db, "SELECT content -> 'money' FROM rule")
    assert stored == ["facts.price", "args.lines.cost"]
