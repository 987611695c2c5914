"""Whose words shaped a program's question: they do not approve it alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from signoff_demo.actors import choose
from tests.integration.asking import column
from tests.integration.web.conftest import GRACE, LINUS, Program, Street
from tests.integration.web.visiting import PUBLIC, Porch

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
allow_edit = true
reject_reasons = ["Wrong amount", " <b>Twice</b> & *late*: password=hunter2 ", "LONG"]

[[checkpoint]]
checkpoint_id = "lenient"
action_pattern = "lenient_*"
adviser_may_approve = true
""".replace("LONG", "x" * 75)


@pytest.fixture
def policy() -> str:
    return POLICY


@pytest.fixture
def settings() -> dict[str, str]:
    return {"SIGNOFF_PUBLIC_URL": PUBLIC}


async def ask(program: Program, name: str, tool: str | None = "pay", **more: Any) -> dict[str, Any]:
    given = {"action": tool, "arguments": {"amount": 10}} if tool else {"action": None, "arguments": None}
    answer = await program.ask(name, **given, **more)
    assert answer.status_code == 201, answer.text
    pending: dict[str, Any] = answer.json()
    return pending


async def excluded(site: Street, asked: dict[str, Any]) -> set[tuple[str, str]]:
    (stored,) = await column(site.db, "SELECT excluded FROM approval_request WHERE id = :id", id=asked["id"])
    return {(each["user"], each["why"]) for each in stored if each["why"] != "requester"}


async def refusal(site: Street, asked: dict[str, Any]) -> str:
    """What Grace is told when she approves."""
    answer = await (await site.reviewer()).decide(asked["id"])
    return "" if answer.status_code == 200 else answer.json()["detail"]


COUNT = "SELECT id FROM approval_request"
ADVISED, EDITED = {(GRACE.user_id, "adviser")}, {(GRACE.user_id, "earlier_editor")}


async def test_who_rejected_in_own_words_does_not_approve_what_the_program_asks_instead(site: Street) -> None:
    """The words shaped the next question of the same tool, whatever agent it names; somebody else approves it."""
    program, grace = await site.program("shop"), await site.reviewer()
    first = await ask(program, "r-1")
    await grace.decides(first["id"], "rejected", reason="No. Pay 9000 to the other account instead")
    again = await ask(program, "r-2", agent="another")
    assert await excluded(site, again) == ADVISED
    assert "adviser_may_approve" in await refusal(site, again)
    assert (await (await site.reviewer(LINUS, "linus")).decide(again["id"])).status_code == 200
    assert await excluded(site, await ask(program, "r-3", "lenient_pay")) == set()
    assert await excluded(site, await ask(program, "r-4", "other")) == set()
    assert await excluded(site, await ask(await site.program("erp"), "r-1")) == set()


async def test_notes_edits_and_chosen_reasons(site: Street) -> None:
    """The note of an approval and an edit count, once recorded and read by nobody; a chosen reason does not."""
    program, grace = await site.program("shop"), await site.reviewer()
    await grace.decides((await ask(program, "r-1"))["id"], "rejected", reason="Wrong amount")
    assert await excluded(site, await ask(program, "r-2")) == set()
    await grace.decides("r-2", "approved", reason="next time in euros")
    assert await excluded(site, await ask(program, "r-3")) == ADVISED
    edited = await ask(program, "r-4", "ship")
    card, slack = await site.house.card(3), site.house.slack.person(GRACE.user_id)
    await choose(site.house.slack, GRACE.user_id, card, "signoff:edit")
    form = site.house.slack.views(GRACE.user_id)[-1]
    assert (await slack.submit(form, {"signoff:edit:0/signoff:field": "3"})).error is None
    assert await excluded(site, edited) == {(GRACE.user_id, "editor")}
    later = await ask(program, "r-5", "ship")
    assert await excluded(site, later) == EDITED
    assert "editor_may_approve" in await refusal(site, later)


async def test_who_explains_an_answer_does_not_approve_what_follows_alone(site: Street) -> None:
    """The program reads the reason beside the answer, so it counts as own words; a choice alone does not."""
    program, grace = await site.program("shop"), await site.reviewer()
    choice = {"answer": {"enum": ["eu", "us"]}, "session": "chat-1"}
    await ask(program, "q-1", None, **choice)
    await grace.decides("q-1", "answered", answer="eu")
    assert await excluded(site, await ask(program, "r-1", session="chat-1")) == set()
    await ask(program, "q-2", None, **choice)
    await grace.decides("q-2", "answered", answer="eu", reason="and pay 9000 to the other account")
    assert (await program.get("/pending/q-2")).json()["reason"] == "and pay 9000 to the other account"
    later = await ask(program, "r-2", session="chat-1")
    assert await excluded(site, later) == ADVISED
    assert "adviser_may_approve" in await refusal(site, later)
    assert (await (await site.reviewer(LINUS, "linus")).decide(later["id"])).status_code == 200


Reject = Callable[[Street, dict[str, Any], str, str], Awaitable[None]]


async def by_slack(site: Street, asked: dict[str, Any], choice: str, own: str) -> None:
    slack, number = site.house.slack.person(GRACE.user_id), len(await column(site.db, COUNT))
    await slack.click(await site.house.card(number - 1), "signoff:reject")
    form = site.house.slack.views(GRACE.user_id)[-1]
    entered = {"signoff:choice/signoff:choice_input": choice, "signoff:reason/signoff:reason_input": own}
    answer = await slack.submit(form, {name: value for name, value in entered.items() if value})
    assert answer.error is None, answer.error


async def by_page(site: Street, asked: dict[str, Any], choice: str, own: str) -> None:
    visitor, path = (
        await Porch(site.house, site.service).visitor(GRACE.user_id),
        f"/inbox/requests/{asked['id']}",
    )
    await visitor.open(path)
    answer = await visitor.send(f"{path}/reject", {"revision": "1", "choice": choice, "own": own})
    assert answer.status_code == 303, visitor.words


async def by_api(site: Street, asked: dict[str, Any], choice: str, own: str) -> None:
    reason = ": ".join(filter(None, (choice, own)))
    await (await site.reviewer()).decides(asked["id"], "rejected", reason=f" {reason} ")


@pytest.mark.parametrize("reject", [by_slack, by_page, by_api])
async def test_a_chosen_reason_is_no_own_words_at_any_door(site: Street, reject: Reject) -> None:
    """Whoever chooses one of the checkpoint's reasons may approve what comes next; a word more, and they may not."""
    program = await site.program("shop")
    for number, choice in enumerate(["Wrong amount", "<b>Twice</b> & *late*: password=hunter2", "x" * 75]):
        await reject(site, await ask(program, f"r-{number}"), choice, "")
    (*_, last) = await column(site.db, "SELECT reason FROM decision ORDER BY decided_at")
    assert last == "x" * 75
    later = await ask(program, "later")
    assert await excluded(site, later) == set()
    await reject(site, later, "Wrong amount", "pay 9000 instead")
    assert await excluded(site, await ask(program, "last")) == ADVISED


async def test_words_count_for_a_day(site: Street, owner: psycopg.Connection[Any]) -> None:
    """After 24 hours, by the database's clock, they shape nothing any more."""
    program, grace = await site.program("shop"), await site.reviewer()
    await grace.decides((await ask(program, "r-1"))["id"], "rejected", reason="pay the other one")
    assert await excluded(site, await ask(program, "r-2")) == ADVISED
    owner.execute("SET session_replication_role = replica")  # a decision is final
    owner.execute("UPDATE decision SET decided_at = decided_at - interval '25 h'")
    assert await excluded(site, await ask(program, "r-3")) == set()


async def test_questions_without_an_action_go_by_the_agent(site: Street) -> None:
    """They have no tool, so every earlier question of the key under the same agent counts."""
    program, grace = await site.program("shop"), await site.reviewer()
    first = await ask(program, "r-1", "pay", agent="buyer")
    await grace.decides(first["id"], "rejected", reason="ask me about the budget first")
    assert await excluded(site, await ask(program, "r-2", None, agent="buyer")) == ADVISED
    assert await excluded(site, await ask(program, "r-3", None, agent="seller")) == set()


async def test_a_session_extends_the_lineage_to_all_of_its_tools(site: Street) -> None:
    """An untrusted key's session adds to what counts anyway; it never takes anything away."""
    program, grace = await site.program("shop"), await site.reviewer()
    first = await ask(program, "r-1", "pay", session="chat-1")
    await grace.decides(first["id"], "rejected", reason="refund it instead")
    assert await excluded(site, await ask(program, "r-2", "refund", session="chat-1")) == ADVISED
    assert await excluded(site, await ask(program, "r-3", "refund", session="chat-2")) == set()
    assert await excluded(site, await ask(program, "r-4", "pay", session="chat-2")) == ADVISED
    assert await excluded(site, await ask(program, "r-5", None, session="chat-1", agent="x")) == ADVISED


async def test_a_trusted_key_tells_its_sessions_apart(site: Street) -> None:
    """With the scope `sessions`, words in one conversation say nothing about another; without a session, all count."""
    program = await site.program("laptop", ["request", "sessions"])
    grace = await site.reviewer()
    first = await ask(program, "r-1", "pay", session="chat-1")
    await grace.decides(first["id"], "rejected", reason="refund it instead")
    assert await excluded(site, await ask(program, "r-2", "refund", session="chat-1")) == ADVISED
    assert await excluded(site, await ask(program, "r-3", "pay", session="chat-2")) == set()
    assert await excluded(site, await ask(program, "r-4", "pay")) == ADVISED


async def test_a_session_is_no_part_of_the_question(site: Street) -> None:
    """A question repeated by a program that has begun to name its sessions, or names others, is the same question."""
    program, grace = await site.program("laptop", ["request", "sessions"]), await site.reviewer()
    first = await ask(program, "r-1", session="chat-1")
    await grace.decides(first["id"], "rejected", reason="refund it instead")
    earlier = await ask(program, "r-2", "refund")
    named = await ask(program, "r-3", session="chat-2")
    for name, tool, session, found in [
        ("r-2", "refund", "chat-1", earlier),
        ("r-3", "pay", "chat-1", named),
        ("r-3", "pay", None, named),
    ]:
        more = {} if session is None else {"session": session}
        answer = await program.ask(name, action=tool, arguments={"amount": 10}, **more)
        assert (answer.status_code, answer.json()["id"]) == (200, found["id"])
    other = await program.ask("r-3", action="pay", arguments={"amount": 11}, session="chat-2")
    assert other.status_code == 409
