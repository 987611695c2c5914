"""Limits over time on actions of programs: what needs no person is counted with the answer that allows it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from agent.domain.checkpoints import load
from agent.usecases import limits, pause, requests
from tests.integration.asking import column, write
from tests.integration.web.conftest import GRACE, LINUS, Program, Street, shown
from tests.integration.web.test_executors import claim, kind, report
from tests.integration.web.test_facts import approve, billing, opened

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
unmatched = "allow"

[[limit]]
name = "refunds"
action_pattern = "refund"
of = "facts.price"
per = "agent"
within = "24h"
max = 1000

[[limit]]
name = "deletes"
action_pattern = "delete"
of = "count"
per = "all"
within = "1h"
max = 3
then = "deny"

[[limit]]
name = "gifts"
action_pattern = "gift"
of = "args.amount"
per = "requester"
within = "24h"
max = 1000

[[limit]]
name = "orders"
action_pattern = "order"
of = "args.amount"
per = "key"
within = "24h"
max = 1000
"""


@pytest.fixture
def policy() -> str:
    return POLICY


async def refund(program: Program, request_id: str, price: Any, *, order: int = 7) -> Any:
    facts = None if price is None else {"price": price}
    return await program.ask(request_id, action="refund", arguments={"order": order}, facts=facts)


async def used(site: Street, name: str = "refunds") -> list[tuple[Decimal, Decimal]]:
    await limits.settle_ended(site.db)
    of = [limit for limit in load(POLICY, filename="").limits if limit.name == name]
    return [(each.used, each.waiting) for each in await limits.by_subject(site.db, of)]


async def test_what_a_program_is_told_counts_once_under_its_name(site: Street) -> None:
    """The same question again is the same use; another one, or other arguments under its name, is another use."""
    program = await billing(site)
    for _ in range(3):
        assert (await refund(program, "r-1", 600)).json()["status"] == "not_required"
    assert await used(site) == [(Decimal(600), Decimal(0))]
    before = await column(site.db, "SELECT at FROM limit_use")
    assert (await refund(program, "r-1", 600)).json()["status"] == "not_required"
    assert await column(site.db, "SELECT at FROM limit_use") == before
    assert (await refund(program, "r-1", 400, order=8)).json()["status"] == "not_required"
    asked = await opened(await refund(program, "r-2", 0.5))
    assert asked["checkpoint_id"] == "limit_reached"
    card = await site.house.card()
    words = shown(site.house.now(card))
    assert "refunds: 1,000 of 1,000 used in 24h. No room for this without approval." in words
    assert (await opened(await refund(program, "r-3", None)))["status"] == "waiting"
    assert await used(site) == [(Decimal(1000), Decimal("0.5"))]


async def test_an_approved_claim_counts_from_then_and_a_failure_gives_it_back(site: Street) -> None:
    """A question reserves, its claim uses, its failed report releases; a rejection and a withdrawal release, too."""
    program = await billing(site)
    asked = await opened(await refund(program, "r-1", 1200))
    assert await used(site) == [(Decimal(0), Decimal(1200))]
    assert (await opened(await refund(program, "r-2", 1)))["status"] == "waiting"
    await program.delete("/pending/r-2")
    await approve(site, asked["id"])
    got = await claim(program, facts={"price": 1200})
    assert await used(site) == [(Decimal(1200), Decimal(0))]
    await report(program, got.json()["token"], status="failed", error="no")
    assert await used(site) == []
    assert (await refund(program, "r-4", 1000)).json()["status"] == "not_required"


@pytest.mark.parametrize("end", ["cancelled", "rejected", "expired"])
async def test_a_programs_question_reserves_until_it_ends(site: Street, end: str) -> None:
    """Each end that is no approval gives back what the question reserved, before and after the sweep."""
    program = await billing(site)
    asked = await opened(await refund(program, "r-1", 1200))
    assert await used(site) == [(Decimal(0), Decimal(1200))]
    if end == "cancelled":
        await program.delete("/pending/r-1")
    elif end == "rejected":
        await (await site.reviewer()).decides(asked["id"], "rejected")
    else:
        await write(site.db, "UPDATE approval_request SET expires_at = clock_timestamp()")
        await requests.expire_due(site.db)
    assert (await program.get("/pending/r-1")).json()["status"] == end
    assert await used(site) == []
    assert await column(site.db, "SELECT count(*) FROM limit_use") == [0]


async def test_changed_facts_move_the_use_to_the_question_that_asks_again(site: Street) -> None:
    """The approval that is void reserves nothing any more; what is asked now reserves what its facts say."""
    program = await billing(site)
    asked = await opened(await refund(program, "r-1", 1200))
    await approve(site, asked["id"])
    assert (await program.get("/pending/r-1")).json()["status"] == "approved"
    assert await used(site) == [(Decimal(1200), Decimal(0))]  # it has read so, and may have begun
    assert kind(await claim(program, facts={"price": 1300})) == (409, "facts-changed")
    assert await used(site) == [(Decimal(0), Decimal(1300))]


async def test_programs_at_once_share_a_limit_that_denies(site: Street) -> None:
    """Of eight at the same moment three may proceed, and the others learn that the limit denies it."""
    program = await site.program()
    answers = await asyncio.gather(
        *(program.ask(f"d-{n}", action="delete", arguments={"n": n}) for n in range(8))
    )
    assert sorted(each.status_code for each in answers) == [200] * 3 + [403] * 5
    denied = next(each for each in answers if each.status_code == 403).json()["detail"]
    assert 'limit "deletes": 3 of 3 used in 1h, and this adds one' in denied
    assert await used(site, "deletes") == [(Decimal(3), Decimal(0))]


async def test_a_key_cannot_spend_a_limit_under_invented_agents(site: Street) -> None:
    """A key that names its agents is one subject under all of them; a key bound to an agent counts as that agent."""
    program = await billing(site)
    facts = {"facts": {"price": 1000}}
    first, second = [
        (await program.ask(f"r-{n}", action="refund", arguments={}, agent=f"agent-{n}", **facts)).json()
        for n in range(2)
    ]
    assert (first["status"], second["status"]) == ("not_required", "waiting")
    bound = await site.program("bound", ["request", "facts"], agent="shop")
    allowed = await bound.ask("r-1", action="refund", arguments={}, **facts)
    assert allowed.json()["status"] == "not_required"
    subjects = "SELECT DISTINCT subject FROM limit_use WHERE limit_name = 'refunds' ORDER BY subject"
    assert await column(site.db, subjects) == ["agent:shop", "key:billing"]


@pytest.mark.parametrize("away", [False, True], ids=["invented", "Slack is away"])
async def test_a_limit_for_each_requester_lets_nothing_run_for_invented_people(
    site: Street, away: bool
) -> None:
    """Whoever a key names must be a member before an action runs unasked; in doubt, people are asked."""
    program = await site.program("desk", ["request", "on_behalf"])
    grace = await program.ask("r-1", action="gift", arguments={"amount": 1000}, requester=GRACE.user_id)
    assert grace.json()["status"] == "not_required"
    over = await program.ask("r-2", action="gift", arguments={"amount": 1}, requester=GRACE.user_id)
    assert over.json()["status"] == "waiting"
    named = "U0NOBODY"
    if away:
        site.house.slack.faults.error("users.info", "internal_error", times=None)
        named = LINUS.user_id
    refused = await program.ask("r-3", action="gift", arguments={"amount": 1000}, requester=named)
    assert refused.status_code in (403, 503), refused.text
    subjects = "SELECT subject FROM limit_use WHERE limit_name = 'gifts' AND subject LIKE :who"
    assert await column(site.db, subjects, who=f"%{named}") == []
    unlimited = await program.ask("r-4", action="read", arguments={}, requester=named)
    assert unlimited.json()["status"] == "not_required"


async def test_a_limit_for_each_key_counts_under_every_name(site: Street) -> None:
    """Neither another agent nor another requester makes room for a key."""
    program = await site.program("desk", ["request", "on_behalf"])
    answers = [
        await program.ask(f"r-{n}", action="order", arguments={"amount": 600}, **names)
        for n, names in enumerate(({}, {"agent": "other"}, {"requester": GRACE.user_id}))
    ]
    assert [each.json()["status"] for each in answers] == ["not_required", "waiting", "waiting"]
    other = await site.program("other", ["request"])
    alone = await other.ask("r-1", action="order", arguments={"amount": 600})
    assert alone.json()["status"] == "not_required"


async def test_a_paused_agent_does_not_go_ahead(site: Street) -> None:
    """While its agent is paused, an action that needs no person does not begin and does not count, limit or not."""
    program = await billing(site)
    for paused in ("billing", None):
        await pause.pause(site.db, paused, by="cli:ada")
        assert kind(await refund(program, "r-1", 600)) == (409, "paused")
        assert kind(await program.ask("r-2", action="read", arguments={})) == (409, "paused")
        await pause.resume(site.db, paused, by="cli:ada")
    assert await column(site.db, "SELECT count(*) FROM limit_use") == [0]
    assert [event for _, event, _ in await site.events("key:billing")] == ["key.created"]
    assert (await refund(program, "r-1", 600)).json()["status"] == "not_required"
    assert (await program.ask("r-2", action="read", arguments={})).json()["status"] == "not_required"
