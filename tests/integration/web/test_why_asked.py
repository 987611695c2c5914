"""*Why am I asked?* on the page and in Details: the rule, what it read, the limit, the grant that does not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agent.domain.short_ids import short_id
from signoff.values import Person
from signoff_demo.actors import choose
from slackbot.cards import ACTION_ALLOW_SIMILAR, ACTION_DETAILS
from tests.integration.asking import column
from tests.integration.web.conftest import ADA, GRACE, TEAM, Program, Street
from tests.integration.web.visiting import PUBLIC, Porch
from tests.rendered import rendered

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[grants]
max_for = "24h"
max_uses = 20

[[limit]]
name = "transfers"
action_pattern = "transfer"
of = "args.amount"
per = "all"
within = "24h"
max = 100

[[checkpoint]]
checkpoint_id = "refund-large"
action_pattern = "refund"
when = "args.amount > 1000.0"

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"
when = "args.amount > 10.0 || args.note.startsWith('urgent')"
allow_grants = true
redact = ["note"]
money = ["args.amount"]

[[checkpoint]]
checkpoint_id = "large-transfers"
action_pattern = "transfer"
when = "args.amount > 1000.0"
"""
Read = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def policy() -> str:
    return POLICY


@pytest.fixture
def settings() -> dict[str, str]:
    return {"SIGNOFF_PUBLIC_URL": PUBLIC}


async def in_details(site: Street, number: int, person: Person = GRACE) -> list[str]:
    slack, reader = site.house.slack, person.user_id
    await slack.person(reader).click(await site.house.card(number), ACTION_DETAILS)
    view = await slack.wait_for(
        lambda: next((each for each in slack.views(reader) if "page 1 of" in str(each)), None)
    )
    await slack.person(reader).close(view, clear=True)
    lines = rendered(view["blocks"])
    return lines[lines.index("Why am I asked?") :]


async def on_the_page(site: Street, number: int, person: Person = GRACE) -> list[str]:
    asked = await column(site.db, "SELECT id FROM approval_request ORDER BY created_at")
    reader = await Porch(site.house, site.service).visitor(person.user_id)
    await reader.open(f"/inbox/requests/{asked[number]}")
    return [reader.words.partition("Why am I asked?")[2]]


READERS = pytest.mark.parametrize("read", [in_details, on_the_page])


@READERS
async def test_the_rule_with_the_values_that_met_it(site: Street, read: Read) -> None:
    """The rule's condition, and what it read, as people see it elsewhere: money as money, secrets hidden."""
    program = await site.program()
    arguments = {"amount": 40, "note": "urgent: 4711-secret"}
    assert (await program.ask(action="refund", arguments=arguments)).status_code == 201
    said = " ".join(await read(site, 0))
    rule = (
        "Checkpoint refunds catches it: when (args.amount > 10.0 || args.note.startsWith('urgent')) is true"
    )
    assert rule.replace(" ", "") in said.replace("• ", "").replace(" ", "")
    assert "args.amount is 40.00" in said
    assert "args.note is ⟦redacted" in said
    assert "refund-large does not apply: when (args.amount > 1000.0) is" in said.replace("• ", "")
    assert "4711" not in said


@READERS
async def test_the_limit_with_its_sum(site: Street, read: Read) -> None:
    """A rule that would let it run alone does not stand there as the reason: the limit does, with its sum."""
    program = await site.program()
    assert (await program.ask("r-1", action="transfer", arguments={"amount": 80})).status_code == 200
    assert (await program.ask("r-2", action="transfer", arguments={"amount": 30})).status_code == 201
    said = " ".join(await read(site, 0)).replace("• ", "")
    assert "Checkpoint large-transfers does not apply: when (args.amount > 1000.0) is false" in said
    assert "Limit transfers: 80 of 100 used in 24h" in said


@READERS
async def test_a_grant_that_does_not_fit(site: Street, read: Read) -> None:
    """It is named, with the field that keeps it from covering this call, and never with its value."""
    grant = await with_an_unfit_grant(site, await site.program())
    said = " ".join(await read(site, 2)).replace("• ", "")  # the grant is a request, too
    assert "does not cover it: args.amount is not allowed by it" in said
    assert grant in said


@READERS
async def test_a_grant_is_shown_only_to_those_who_may_revoke_it(site: Street, read: Read) -> None:
    """The requester, who reviews nothing, reads the rule and not what reviewers allowed; an administrator does."""
    site.house.slack.workspace.add_member("U0HERE", "here")
    grant = await with_an_unfit_grant(site, await site.program(owner=Person(TEAM, "U0HERE")))
    said = " ".join(await read(site, 2, Person(TEAM, "U0HERE"))).replace("• ", "")
    assert "Checkpoint refunds catches it" in said
    assert "not cover" not in said
    assert grant not in said
    assert grant in " ".join(await read(site, 2, ADA))


async def with_an_unfit_grant(site: Street, program: Program) -> str:
    """What its line begins with; the second request differs from what it allows."""
    slack = site.house.slack
    like: dict[str, Any] = {"action": "refund", "arguments": {"amount": 40}}
    await program.ask("r-1", **like)
    grace = slack.person("U0GRACE")
    await choose(slack, "U0GRACE", await site.house.card(), ACTION_ALLOW_SIMILAR)
    await grace.submit(slack.views("U0GRACE")[-1])
    await grace.submit(slack.views("U0GRACE")[-1])
    [grant] = await column(site.db, "SELECT request_id FROM approval_grant")
    await program.ask("r-2", **(like | {"arguments": {"amount": 41}}))
    return f"Grant {short_id(grant)} "


@READERS
async def test_a_rule_that_nobody_wrote(site: Street, read: Read) -> None:
    """Where no rule names the action, that is the reason."""
    await (await site.program()).ask(action="deploy", arguments={"region": "eu"})
    assert "No rule names this action, so people are asked" in " ".join(await read(site, 0))
