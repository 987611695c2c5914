"""Whatever fails on the way to an approval, nothing is approved and nothing runs; one table over the ports."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import text

from agent.domain.policy import Policy
from agent.domain.rules import Rule
from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from signoff_demo.sandbox.model import ModelFault, ScriptedCall, ScriptedTurn
from slackbot.cards import ACTION_APPROVE_COMMENT
from slackbot.masking import views
from tests.integration import older_cards
from tests.integration.service.conftest import POLICY, House, until

Json = dict[str, Any]
ACTED = """
SELECT (SELECT count(*) FROM vote) + (SELECT count(*) FROM decision) + (SELECT count(*) FROM execution)
"""
PROPOSAL = ScriptedTurn("I delete.", (ScriptedCall("delete_records", {"table_name": "users", "count": 5}),))


def broken(*_: Any, **__: Any) -> Any:
    """A replacement for any port."""
    raise RuntimeError("injected")


# --- while somebody clicks: each lets the port fail until the stack is closed, and clicks ----------------------

Failing = Callable[[House, Json, AsyncExitStack, pytest.MonkeyPatch], Awaitable[None]]


def slack_fails(method: str, how: str) -> Failing:
    """One of the look-ups that a click needs is not answered, refused, limited or cut off."""

    async def fail(house: House, card: Json, stack: AsyncExitStack, _: pytest.MonkeyPatch) -> None:
        faults = house.slack.faults
        stack.callback(faults.clear)
        match how:
            case "limit":
                fault = faults.ratelimited(method, retry_after=30, times=None)
            case "hang":
                fault = faults.hang(method, 30, times=None)
            case "cut":
                fault = faults.reset_before_accept(method, times=None)
            case _:
                fault = faults.error(method, how, times=None)
        await house.slack.person("U0GRACE").click(card, "signoff:approve")
        assert fault.hits

    return fail


async def the_database_is_stuck(
    house: House, card: Json, stack: AsyncExitStack, _: pytest.MonkeyPatch
) -> None:
    """A lock on the requests that is not released."""
    connection = await stack.enter_async_context(house.db.transaction())
    await connection.execute(text("LOCK TABLE approval_request IN ACCESS EXCLUSIVE MODE"))
    answer = await house.slack.person("U0GRACE").click(card, "signoff:approve")
    assert answer.error is not None


async def the_record_is_stuck(house: House, card: Json, stack: AsyncExitStack, _: pytest.MonkeyPatch) -> None:
    """The request is free, and the chain on which the vote must be recorded is not."""
    connection = await stack.enter_async_context(house.db.transaction())
    await connection.execute(text("SELECT 1 FROM audit_head FOR UPDATE"))
    answer = await house.slack.person("U0GRACE").click(card, "signoff:approve")
    assert answer.error is not None


async def clocks_disagree(house: House, card: Json, stack: AsyncExitStack, _: pytest.MonkeyPatch) -> None:
    """What is signed at another time than ours is not taken, whichever clock is wrong."""
    payload = house.slack.person("U0GRACE").click_payload(card, "signoff:approve")
    body = urlencode({"payload": json.dumps(payload)}).encode()
    for drift in (-400, 400):
        signed = house.slack.sign(body, timestamp=int(time.time()) + drift)
        assert (await house.slack.send(signed)).status == 401


async def the_deadline_is_over(
    house: House, card: Json, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the database's clock; that no sweep has run and what this machine believes do not count."""
    async with house.db.transaction() as tx:
        await tx.execute(
            text(
                "UPDATE approval_request SET created_at = created_at - interval '2 days',"
                " expires_at = expires_at - interval '2 days'"
            )
        )
    await house.slack.person("U0GRACE").click(card, "signoff:approve")


async def the_scanner_fails(
    house: House, card: Json, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No form is opened that could not be looked through for secrets, so nothing can be sent from it."""
    monkeypatch.setattr(views, "SecretFinder", broken)
    await older_cards.press(house.slack, "U0GRACE", card, ACTION_APPROVE_COMMENT)
    assert house.slack.views("U0GRACE") == []


CLICKS: dict[str, Failing] = {
    **{
        f"{method}: {how}": slack_fails(method, how)
        for method in ("users.info", "usergroups.users.list")
        for how in ("limit", "hang", "cut", "internal_error", "missing_scope")
    },
    "the database is stuck": the_database_is_stuck,
    "the record is stuck": the_record_is_stuck,
    "clocks disagree": clocks_disagree,
    "the deadline is over": the_deadline_is_over,
    "the scanner fails": the_scanner_fails,
}


@pytest.mark.budgets
@pytest.mark.parametrize("port", CLICKS)
async def test_a_click_through_a_broken_port_approves_nothing(
    http_house: House, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    """A reviewer's own, valid click, while one thing that it needs fails: no vote, no decision, no execution."""
    house, deleted = http_house, list[int]()
    await house.open([_agent(deleted)], POLICY, SIGNOFF_ROLES="web,worker")
    house.model.script(PROPOSAL)
    await house.ask("U0ADA", "please delete_records")
    card = await house.card()
    async with AsyncExitStack() as stack:
        await CLICKS[port](house, card, stack, monkeypatch)
    assert await house.column(ACTED) == [0]
    assert await house.column("SELECT status::text FROM approval_request") == ["waiting"]
    assert deleted == []


# --- before anybody is asked: how the port fails, and what shows that it was needed -----------------------------

BROKEN: dict[str, tuple[Any, str]] = {
    "policy evaluation": (Policy, "judge"),
    "template rendering": (Rule, "describe"),
    "the snapshot of a rule": (Rule, "snapshot"),
}


@pytest.mark.parametrize("port", BROKEN)
async def test_a_call_that_cannot_be_judged_does_not_run(
    http_house: House, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    """What says whether people must be asked fails: unasked, it waits, is looked at again, and nothing runs."""
    house, deleted, looks = http_house, list[int](), list[str]()
    await house.open([_agent(deleted)], POLICY)
    owner, name = BROKEN[port]

    def fails(*_: Any, **__: Any) -> Any:
        looks.append(name)
        raise RuntimeError("injected")

    monkeypatch.setattr(owner, name, fails)
    house.model.script(PROPOSAL)
    await house.ask("U0ADA", "please delete_records")

    async def twice() -> bool:
        return len(looks) >= 2

    await until(twice, 20)
    assert await house.column(ACTED) == [0]
    assert deleted == []
    monkeypatch.undo()
    await house.card()  # mended, it is asked after all
    assert deleted == []


@pytest.mark.parametrize("when", ["facts.nothing > 1", "1 / (args.count - 5) > 0", "args.table_name"])
async def test_a_condition_that_fails_asks(http_house: House, when: str) -> None:
    """An error in a condition, or an answer that is no boolean, is not `false`: people are asked."""
    deleted: list[int] = []
    await http_house.open([_agent(deleted)], f"{POLICY}when = '{when}'\n")
    http_house.model.script(PROPOSAL)
    await http_house.ask("U0ADA", "please delete_records")
    await http_house.card()
    assert await http_house.column(ACTED) == [0]
    assert deleted == []


@pytest.mark.parametrize("facts", ["raises", "no mapping", "no number"])
async def test_facts_that_fail_ask(http_house: House, facts: str) -> None:
    """A look-up that raises, or returns what cannot be compared, lets nothing through a condition on facts."""
    answers: Json = {"no mapping": [1], "no number": {"rows": float("nan")}}

    def look(count: int) -> Any:
        return answers[facts] if facts in answers else broken()

    deleted: list[int] = []
    await http_house.open([_agent(deleted, facts=look)], f"{POLICY}when = 'facts.rows > 1000'\n")
    http_house.model.script(PROPOSAL)
    await http_house.ask("U0ADA", "please delete_records")
    await http_house.card()
    assert await http_house.column(ACTED) == [0]
    assert deleted == []


@pytest.mark.parametrize(
    "fault", [ModelFault.http(500), ModelFault.http(429), ModelFault.reset(), ModelFault.garbage()], ids=str
)
async def test_a_model_that_fails_does_nothing(http_house: House, fault: ModelFault) -> None:
    """No turn, no call; when the model answers at last, its call is asked about like any other."""
    deleted: list[int] = []
    await http_house.open([_agent(deleted)], POLICY)
    http_house.model.script(fault, PROPOSAL)
    await http_house.ask("U0ADA", "please delete_records")
    await http_house.model.wait_for_request()
    assert await http_house.column(ACTED) == [0]
    await http_house.card()
    assert await http_house.column(ACTED) == [0]
    assert deleted == []


async def test_a_card_that_cannot_be_looked_through_is_not_shown(
    http_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scanner fails: what is posted has no Approve, or nothing is posted, and nobody can approve unseen."""
    deleted: list[int] = []
    monkeypatch.setattr(views, "_view", broken)
    await http_house.open([_agent(deleted)], POLICY)
    http_house.model.script(PROPOSAL)
    await http_house.ask("U0ADA", "please delete_records")

    async def tried() -> bool:
        return bool(
            await http_house.column(
                "SELECT 1 FROM delivery WHERE kind = 'card' AND (attempts > 0 OR state = 'sent')"
            )
        )

    await until(tried)
    assert "'Approve'" not in str(http_house.slack.messages("C0REVIEW"))
    assert await http_house.column(ACTED) == [0]


def _agent(deleted: list[int], **options: Any) -> Agent:
    @tool(**options)
    def delete_records(table_name: str, count: int) -> str:
        """Delete records."""
        deleted.append(count)
        return "Deleted"

    return Agent("data", "You manage data.", [delete_records])
