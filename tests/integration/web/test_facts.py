"""Facts of programs: policy judges on them, people see their source, and a claim is compared with them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import psycopg
import pytest

from agent.domain.facts import Facts
from tests.integration.asking import column, rows
from tests.integration.invariants import broken
from tests.integration.web.conftest import Program, Street, shown
from tests.integration.web.test_executors import claim, kind

REFUNDS = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
allow_edit = true
redact = ["card"]
money = ["facts.price"]

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"
when = "facts.price > 1000.0"
description_template = "Refund {facts.price} for order {args.order_id}"

[[checkpoint]]
checkpoint_id = "transfers"
action_pattern = "transfer"
when = "args.amount > 10.0"
"""
TOLD: dict[str, Any] = {"action": "refund", "arguments": {"order_id": 7, "amount": 1}}
DEAR, CHEAP = {"price": 1500.0, "card": "4111-secret"}, {"price": 10.0}


@pytest.fixture
def policy() -> str:
    return REFUNDS


async def billing(site: Street) -> Program:
    return await site.program("billing", ["request", "facts"])


async def approve(site: Street, request_id: str) -> None:
    await (await site.reviewer()).decides(request_id)


async def opened(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    pending: dict[str, Any] = answer.json()
    return pending


async def test_policy_judges_on_told_facts_and_the_card_says_who_told_them(site: Street) -> None:
    """A small lie in the arguments asks nevertheless; what runs unasked is on record with the facts it rests on."""
    program = await billing(site)
    asked = await opened(await program.ask(**TOLD, facts=DEAR))
    assert asked["description"] == "Refund 1,500.00 for order 7"
    assert asked["facts_source"] == "program"
    assert asked["facts"]["price"] == 1500
    assert "secret" not in str(asked["facts"])
    card = await site.house.card()
    words = shown(site.house.now(card))
    assert "Facts, supplied by the program billing" in words
    assert "1,500" in words
    assert "4111-secret" not in words
    unasked = await program.ask("r-2", **TOLD, facts=CHEAP)
    assert (unasked.status_code, unasked.json()["facts_source"]) == (200, "program")
    assert unasked.json()["status"] == "not_required"
    events = {event: detail for _, event, detail in await site.events("key:billing")}
    recorded = events["review.not_required"]
    assert recorded["facts"] == Facts(CHEAP, source=None).canonical_digest
    assert recorded["facts_source"] == "program"
    [(_, _, first)] = await site.events(f"request:{asked['id']}")
    assert (first["facts"], first["facts_source"]) == (Facts(DEAR).canonical_digest, "program")


async def test_only_keys_with_the_scope_tell_facts(site: Street) -> None:
    """Without it 403, at the question and at the claim; facts without an action and broken facts are 422."""
    plain, program = await site.program(), await billing(site)
    assert kind(await plain.ask(**TOLD, facts=CHEAP)) == (403, "scope-missing")
    assert kind(await plain.ask(**TOLD, facts_failed=True)) == (403, "scope-missing")
    await opened(await plain.ask("r-2", **TOLD))
    assert kind(await claim(plain, "r-2", facts=CHEAP)) == (403, "scope-missing")
    no_action = await program.ask(action=None, arguments=None, facts=CHEAP)
    assert kind(no_action) == (422, "invalid")
    assert kind(await program.ask(**TOLD, facts=CHEAP, facts_failed=True)) == (422, "invalid")
    large = await program.ask(**TOLD, facts={"text": "x" * 70_000})
    assert kind(large) == (422, "invalid")
    assert large.json()["errors"] == [{"path": "$.facts", "problem": "is larger than 64 KiB"}]
    for wrong in ('{"price": NaN}', '{"note": "\\u0000"}', '{"a": 1, "a": 2}', "[1]"):
        body = f'{{"request_id": "r-3", "action_description": "x", "action": "refund", "facts": {wrong}}}'
        sent = await program.post("/pending", content=body, headers={"Content-Type": "application/json"})
        assert sent.status_code == 422, (wrong, sent.text)
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [1]


async def test_facts_that_fail_never_let_an_action_run(site: Street) -> None:
    """Where they could not be looked up people are asked, although no rule would; its claim needs facts."""
    program = await billing(site)
    small: dict[str, Any] = {"action": "transfer", "arguments": {"amount": 1}}
    assert (await program.ask("r-0", **small)).json()["status"] == "not_required"
    asked = await opened(await program.ask(**small, facts_failed=True))
    assert asked["checkpoint_id"] == "facts_failed"
    card = await site.house.card()
    assert "The program billing could not look up the facts" in shown(site.house.now(card))
    await approve(site, asked["id"])
    refused = await claim(program)
    assert kind(refused) == (409, "facts-needed")
    assert "the claim must include the current `facts`" in refused.json()["detail"]
    assert kind(await claim(program, facts=CHEAP)) == (409, "facts-changed")
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]


async def test_other_facts_at_the_claim_void_the_approval_and_people_are_asked_again(site: Street) -> None:
    """The answer has the difference and the request to wait for; the program's own name leads there from then on."""
    program = await billing(site)
    first = await opened(await program.ask(**TOLD, facts=DEAR))
    await approve(site, first["id"])
    dearer = {**DEAR, "price": 2500.0, "card": "5222-secret"}
    changed = await claim(program, facts=dearer)
    assert kind(changed) == (409, "facts-changed")
    again = changed.json()
    assert {"path": "$.price", "before": 1500, "after": 2500} in again["changes"]
    assert "secret" not in changed.text
    assert (again["request_id"], again["id"] != first["id"]) == ("r-1", True)
    # Nobody's word counts twice, and the void approval leads to the same question however often it is claimed.
    assert kind(await claim(program, facts=dearer)) == (409, "not-approved")
    lost = await claim(program, first["id"], facts=dearer)
    assert (kind(lost), lost.json()["id"]) == ((409, "facts-changed"), again["id"])
    now = (await program.get("/pending/r-1")).json()
    assert (now["id"], now["status"], now["votes"], now["facts"]["price"]) == (
        again["id"],
        "waiting",
        [],
        2500,
    )
    repeated = await program.ask(**TOLD, facts=dearer)
    assert (repeated.status_code, repeated.json()["id"]) == (200, again["id"])
    void = (await program.get(f"/pending/{first['id']}")).json()
    assert (void["status"], void["voided"], void["lapsed"], void["lapse_at"]) == (
        "approved",
        True,
        True,
        None,
    )
    card = await site.house.card(1)
    words = shown(site.house.now(card))
    assert "Changed since an earlier approval, which is void" in words
    old = await site.house.card(0)
    await site.house.slack.wait_for(lambda: "Approval void" in shown(site.house.now(old)))
    await approve(site, again["id"])
    right = await claim(program, facts=dearer)
    assert right.status_code == 200, right.text
    assert await column(site.db, "SELECT count(*) FROM execution") == [1]
    events = [event for _, event, _ in await site.events(f"request:{first['id']}")]
    assert events[-1] == "request.reopened"
    assert await column(site.db, "SELECT count(*) FROM judgement WHERE request_id IS NOT NULL") == [2]


async def test_claims_at_once_with_other_facts_ask_again_once(site: Street) -> None:
    """Of claims that race, each with facts of its own, one voids the approval, and all lead to the same question."""
    program = await billing(site)
    first = await opened(await program.ask(**TOLD, facts=DEAR))
    await approve(site, first["id"])
    answers = await asyncio.gather(
        *(claim(program, first["id"], facts={"price": 2000.0 + n}) for n in range(8)),
        *(claim(program, first["id"], facts=DEAR) for _ in range(2)),
    )
    claimed = [each for each in answers if each.status_code == 200]
    refused = [each for each in answers if each not in claimed]
    ids = {each.json()["id"] for each in refused if kind(each) == (409, "facts-changed")}
    assert (len(ids), len(claimed)) in ((1, 0), (0, 1)), [each.text for each in answers]
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [1 + len(ids)]
    assert await column(site.db, "SELECT count(*) FROM execution") == [len(claimed)]
    assert await broken(site.db) == []


async def test_old_facts_that_a_rule_reads_must_be_told_again(
    site: Street, owner: psycopg.Connection[Any]
) -> None:
    """Fresh ones need not; a claim under the same name is the same claim, whatever its facts say by then."""
    program = await billing(site)
    for name in ("r-1", "r-2"):
        await approve(site, (await opened(await program.ask(name, **TOLD, facts=DEAR)))["id"])
    assert (await claim(program, "r-2")).status_code == 200
    _age(owner, 61)
    refused = await claim(program)
    assert kind(refused) == (409, "facts-needed")
    headers = {"Idempotency-Key": "attempt-1"}
    body = {"facts": DEAR}
    right = await program.post("/pending/r-1/claim", json=body, headers=headers)
    assert right.status_code == 200, right.text
    body = {"facts": {"price": 0.0}}
    same = await program.post("/pending/r-1/claim", json=body, headers=headers)
    assert (same.status_code, same.json()["token"]) == (200, right.json()["token"])


@pytest.mark.parametrize("policy", [REFUNDS.replace('when = "facts', 'facts_max_age = "2m"\nwhen = "facts')])
async def test_a_checkpoint_says_how_old_told_facts_may_be(
    site: Street, owner: psycopg.Connection[Any]
) -> None:
    """With `facts_max_age = "2m"` they hold for longer than a minute, and not for longer than two."""
    program = await billing(site)
    for name in ("r-1", "r-2"):
        await approve(site, (await opened(await program.ask(name, **TOLD, facts=DEAR)))["id"])
    _age(owner, 61)
    assert (await claim(program, "r-2")).status_code == 200
    _age(owner, 60)
    assert kind(await claim(program)) == (409, "facts-needed")


async def test_nobody_edits_what_told_facts_are_about(site: Street) -> None:
    """Facts are those of the original arguments; only the program could send others."""
    asked = await opened(await (await billing(site)).ask(**TOLD, facts=DEAR))
    card = await site.house.card()
    assert "Edit" not in shown(site.house.now(card))
    [(policy,)] = await rows(
        site.db,
        "SELECT content FROM rule JOIN approval_request AS r ON r.rule_digest = digest WHERE r.id::text = :id",
        id=asked["id"],
    )
    assert policy["allow_edit"] is False


def _age(owner: psycopg.Connection[Any], seconds: int) -> None:
    """Everything that people were shown was shown that much earlier."""
    owner.execute("ALTER TABLE request_revision DISABLE TRIGGER USER")
    owner.execute(
        "UPDATE request_revision SET created_at = created_at - make_interval(secs => %s)", [seconds]
    )
    owner.execute("ALTER TABLE request_revision ENABLE TRIGGER USER")
