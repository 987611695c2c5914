"""The main job end to end: an agent asks in Slack, a click resumes it, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from agent.store.outbox import Destination
from signoff_demo.sandbox.model import ModelFault
from signoff_demo.sandbox.person import InteractionResult
from tests.integration import asking
from tests.integration.service.conftest import POLICY, House, until

TASK = "please delete_records table_name=users count=50"


class Table:
    """What the tool does to the world, counted."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int]] = []

    def agent(self, **options: Any) -> Agent:
        @tool(**options)
        def delete_records(table_name: str, count: int) -> str:
            """Delete records from a table."""
            self.deleted.append((table_name, count))
            return f"Deleted {count} records from {table_name}"

        return Agent("data", "You manage data.", [delete_records])


async def test_policy_limits_the_cards_of_a_minute(house: House) -> None:
    """With a limit of one, the second request of an agent is in a digest."""
    there = Destination(house.slack.workspace.team.id, "C0REVIEW")
    for _ in range(2):
        await asking.ask(house.db, destination=there)
    await house.open([], POLICY.replace("[defaults]", "[defaults]\ncards_per_minute = 1"))
    await house.slack.wait_for(
        lambda: any("1 request from agent" in m["text"] for m in house.slack.messages("C0REVIEW"))
    )
    assert await house.column("SELECT folded FROM card_place ORDER BY request_id") == [False, True]


async def test_approve_runs_the_tool_once_and_the_agent_answers(house: House) -> None:
    """A waiting row within a second, a card, a click: the tool runs once and the run's thread has the answer."""
    table = Table()
    await house.open([table.agent()])
    await house.ask("U0ADA", TASK)
    await house.shows("SELECT status::text FROM pending_reviews", "waiting", seconds=5)
    assert await house.column("SELECT action_description FROM pending_reviews") == [
        "Delete 50 records from “users”"
    ]
    card = await house.card()
    assert table.deleted == []
    answer = await house.slack.person("U0GRACE").click(card, "signoff:approve")
    assert answer.error is None
    await house.shows("SELECT status::text FROM agent_run", "completed")
    assert table.deleted == [("users", 50)]
    await house.says("Deleted 50 records from users")
    await house.says("Approved", channel="C0REVIEW")
    await house.slack.wait_for(lambda: "signoff:approve" not in str(house.now(card)["blocks"]))


async def test_one_message_tells_how_far_the_run_is(house: House) -> None:
    """The first message of the run's thread is changed as it goes: it waits after a step, is complete after two."""
    await house.open([Table().agent()])
    await house.ask("U0ADA", TASK)

    def first(words: str, step: str) -> dict[str, Any] | None:
        roots = [m for m in house.slack.messages("C0AGENTS") if m["text"].startswith(words)]
        return next((m for m in roots if step in str(m["blocks"])), None)

    waiting = await house.slack.wait_for(lambda: first("⏳ Waiting for review: ", "step 1"))
    await house.slack.person("U0GRACE").click(await house.card(), "signoff:approve")
    ended = await house.slack.wait_for(lambda: first("✅ Completed: ", "step 2"))
    assert ended["ts"] == waiting["ts"]
    assert first("⏳ Waiting for review: ", "step 1") is None


async def test_a_run_that_is_started_while_its_agent_is_paused_says_so(http_house: House) -> None:
    """Its first message names who paused it, and does not say "Working" until somebody resumes the agent."""
    house = http_house
    await house.open([Table().agent()])
    house.slack.workspace.add_member("U0BOSS", "boss", is_admin=True)
    boss = house.slack.person("U0BOSS")
    assert "data is paused" in str((await boss.command("/agent", "pause data", "C0AGENTS")).response)
    await house.ask("U0ADA", TASK)
    message = await house.says("Paused")
    assert "U0BOSS" in message
    assert "nothing begins until it is resumed" in message
    assert "Working" not in message
    await boss.command("/agent", "resume data", "C0AGENTS")
    await house.card()
    assert "paused" not in (await house.says("Waiting for review")).lower()


@pytest.mark.parametrize("asked", [True, False])
async def test_a_call_in_doubt_calls_its_requester(http_house: House, *, asked: bool) -> None:
    """The run's first message says where to look, and a line of its thread mentions who started the run."""
    house = http_house

    @tool
    async def delete_records(table_name: str, count: int) -> str:
        """Delete records from a table."""
        raise TimeoutError("the database did not answer")

    policy = POLICY if asked else '[defaults]\nchannel = "C0REVIEW"\nunmatched = "allow"\n'
    await house.open([Agent("data", "You manage data.", [delete_records])], policy)
    await house.ask("U0ADA", TASK)
    if asked:
        await house.slack.person("U0GRACE").click(await house.card(), "signoff:approve")
    await house.says("In doubt, see its card or thread")

    def line() -> str | None:
        [root] = house.slack.messages("C0AGENTS")
        found = house.slack.thread("C0AGENTS", root["ts"])
        return next((str(each) for each in found if "A call is in doubt" in each["text"]), None)

    found = await house.slack.wait_for(line)
    assert "<@U0ADA>" in found
    assert ("settle it on its card" in found, "signoff:done_call" in found) == (asked, not asked)


async def test_reject_with_a_reason_stops_the_run(house: House) -> None:
    """The reason goes through the modal; the run ends denied, logged as a CollaborationError, and nothing runs."""
    table = Table()
    await house.open([table.agent()])
    await house.ask("U0ADA", TASK)
    card = await house.card()
    grace = house.slack.person("U0GRACE")
    with capture_logs() as logs:
        await grace.click(card, "signoff:reject")
        [form] = await house.slack.wait_for(lambda: house.slack.views("U0GRACE"))
        answer = await grace.submit(form, {"signoff:reason_input": "Not these users"})
        assert answer.error is None
        assert answer.errors == {}
        await house.shows("SELECT status::text FROM agent_run", "denied")
        await house.says("Not these users", channel="C0REVIEW")
        await house.says("stopped")
    assert any("CollaborationError: rejected" in str(line) for line in logs)
    assert table.deleted == []
    assert await house.column("SELECT cause FROM agent_run") == ["rejected"]


async def test_ten_people_at_once_are_one_decision(http_house: House) -> None:
    """Ten members of the channel click at the same moment, mixed: one decides, nine read who did."""
    house, table = http_house, Table()
    people = [f"U0P{n}" for n in range(10)]
    for user in people:
        house.slack.workspace.add_member(user, user.lower(), user)
        house.slack.workspace.join("C0REVIEW", user)
    await house.open([table.agent()], POLICY.replace('"S0FINANCE"', '"channel"'))
    await house.ask("U0ADA", TASK)
    card = await house.card()
    await asyncio.gather(*(house.slack.person(user).click(card, "signoff:reject") for user in people[5:]))

    def word(user: str) -> Awaitable[InteractionResult]:
        person = house.slack.person(user)
        views = house.slack.views(user)
        return person.submit(views[0], {}) if views else person.click(card, "signoff:approve", stale=True)

    def lost_the_vote(user: str) -> bool:
        return "already" in str([house.slack.ephemeral(user), house.slack.views(user)])

    answers = await asyncio.gather(*(word(user) for user in people))
    # On a busy machine somebody's click may run out of time: that person is told to click again, and does.
    late = [user for user, answer in zip(people, answers, strict=True) if answer.error]
    for user in late:
        await word(user)
    assert await house.column("SELECT count(*) FROM decision") == [1]
    [decider] = await house.column("SELECT user_id FROM decision")
    others = [user for user in people if user != decider]
    await house.slack.wait_for(lambda: all(lost_the_vote(user) for user in others))
    assert all(decider in str([house.slack.ephemeral(user), house.slack.views(user)]) for user in others)


async def test_the_same_signed_click_three_times_is_one_vote(http_house: House) -> None:
    """A replay inside Slack's window gets the same answer and changes nothing."""
    house, table = http_house, Table()
    await house.open([table.agent()])
    await house.ask("U0ADA", TASK)
    card = await house.card()
    click = house.slack.person("U0GRACE").signed_click(card, "signoff:approve")
    results = await asyncio.gather(*(house.slack.send(click) for _ in range(3)))
    assert {result.status for result in results} == {200}
    assert await house.column("SELECT count(*) FROM vote") == [1]
    await house.shows("SELECT status::text FROM agent_run", "completed")
    assert len(table.deleted) == 1


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_the_thread_of_a_background_call_says_who_decided(http_house: House, verdict: str) -> None:
    """Where the run was started one reads what was decided about which action, by whom, and with which reason."""
    house, table = http_house, Table()
    await house.open([table.agent(background=True)], POLICY.replace('"stop"', '"tell_model"'))
    await house.ask("U0ADA", TASK)
    grace, card = house.slack.person("U0GRACE"), await house.card()
    if verdict == "approve":
        await grace.click(card, "signoff:approve")
    else:
        await grace.click(card, "signoff:reject")
        form = house.slack.views("U0GRACE")[-1]
        await grace.submit(form, {"signoff:reason/signoff:reason_input": "not before Monday"})
    word = {"approve": "✅ Approved", "reject": "❌ Rejected"}[verdict]
    said = await house.says(word)
    assert all(word not in each["text"] for each in house.slack.messages("C0AGENTS")), (
        "it is said in the thread"
    )
    assert "'user_id': 'U0GRACE'" in said
    assert "Delete 50 records from “users”" in said
    assert ("not before Monday" in said) == (verdict == "reject")


async def test_a_click_after_the_deadline_is_refused_before_any_sweep(http_house: House) -> None:
    """Without a scheduler nothing has expired the request, and still the late click does not count."""
    house, table = http_house, Table()
    await house.open([table.agent()], SIGNOFF_ROLES="web,worker")
    await house.ask("U0ADA", TASK)
    card = await house.card()
    await house.make_overdue()
    await house.slack.person("U0GRACE").click(card, "signoff:approve")
    await house.slack.wait_for(lambda: "ran out" in str(house.slack.ephemeral("U0GRACE")))
    assert await house.column("SELECT status::text FROM approval_request") == ["waiting"]
    assert table.deleted == []


async def test_expiry_is_told_and_can_be_asked_again_by_the_requester(http_house: House) -> None:
    """The sweep expires it, its card offers Ask again until that was done, then links to the new one's."""
    house, table = http_house, Table()
    await house.open([table.agent()], POLICY.replace('"stop"', '"tell_model"'))
    await house.ask("U0ADA", TASK)
    card = await house.card()
    await house.make_overdue()
    await house.slack.wait_for(lambda: "signoff:ask_again" in str(house.now(card)["blocks"]))
    await house.slack.person("U0GRACE").click(house.now(card), "signoff:ask_again")
    assert await house.column("SELECT count(*) FROM tool_call") == [1]
    await house.slack.person("U0ADA").click(house.now(card), "signoff:ask_again")
    again = await house.card(1)
    link = f"/archives/{again['channel']}/p{again['ts'].replace('.', '')}"
    await house.slack.wait_for(lambda: link in str(house.now(card)["blocks"]))
    assert "signoff:ask_again" not in str(house.now(card)["blocks"])
    answer = await house.slack.person("U0GRACE").click(again, "signoff:approve")
    assert answer.error is None
    await house.shows("SELECT status::text FROM approval_request ORDER BY id", "expired", "approved")
    await house.says("Deleted 50 records from users")
    assert len(table.deleted) == 1


async def test_the_facts_decide_and_not_what_the_model_says(http_house: House) -> None:
    """The model claims a price below the limit, in its words and in its arguments; the card still appears."""
    house = http_house
    paid: list[int] = []

    @tool(facts=lambda order_id: {"price": 1500})
    def process_refund(order_id: int, price: float) -> str:
        """Refund an order."""
        paid.append(order_id)
        return "refunded"

    policy = """
    [[checkpoint]]
    checkpoint_id = "large"
    action_pattern = "process_refund"
    when = "facts.price > 1000.0"
    money = ["facts.price"]
    approvers = ["S0FINANCE"]
    """
    await house.open([Agent("shop", "Refund orders.", [process_refund])], policy)
    house.model.script([("process_refund", {"order_id": 7, "price": 9.99})])
    await house.ask("U0ADA", "refund order 7, it costs 9.99", agent="shop")
    card = await house.card()
    assert "1,500" in str(card["blocks"])
    assert paid == []


async def test_the_requester_is_told_why_they_may_not_decide(http_house: House) -> None:
    """Self-review is refused in words that name the setting, and is on record; an outsider has another sentence."""
    house, table = http_house, Table()
    await house.open([table.agent()], POLICY.replace('"S0FINANCE"', '"channel"'))
    await house.ask("U0ADA", TASK)
    card = await house.card()
    await house.slack.person("U0ADA").click(card, "signoff:approve")
    await house.slack.wait_for(lambda: "prevent_self_review" in str(house.slack.ephemeral("U0ADA")))
    refused = await house.column("SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'vote.refused'")
    assert refused == ["self_review"]
    assert await house.column("SELECT count(*) FROM vote") == [0]


async def test_a_background_call_lets_the_conversation_go_on(http_house: House) -> None:
    """While people decide, replies in the run's thread are answered; the outcome is posted when it is known."""
    house, table = http_house, Table()
    await house.open([table.agent(background=True)])
    await house.ask("U0ADA", TASK)
    card = await house.card()
    await house.shows("SELECT status::text FROM agent_run", "completed")
    [root] = await house.column("SELECT thread_ts FROM agent_run")
    house.model.script("It still waits for Grace or Linus.")
    house.slack.person("U0ADA").say("C0AGENTS", "how is it going?", thread_ts=root)
    await house.says("It still waits for Grace or Linus.")
    await house.slack.person("U0GRACE").click(card, "signoff:approve")
    await house.says("Deleted 50 records from users")
    assert len(table.deleted) == 1


@pytest.mark.parametrize("first", ["slack", "model"])
async def test_what_is_unreachable_is_waited_for(http_house: House, first: str) -> None:
    """An outage of Slack or the model delays the job, shows in the health check, and loses nothing."""
    house, table = http_house, Table()
    if first == "slack":
        house.slack.faults.http_500("auth.test", times=None)
    service = await house.open([table.agent()])
    ready, parts = await service.check()
    assert ready
    assert parts["slack"] == ("unreachable" if first == "slack" else "connected")
    if first == "slack":
        house.slack.faults.clear()

        async def connected() -> bool:
            return (await service.check())[1]["slack"] == "connected"

        await until(connected)
    else:
        house.model.script(ModelFault.http(503), ModelFault.reset())
    await house.ask("U0ADA", TASK)
    card = await house.card()
    await house.slack.person("U0GRACE").click(card, "signoff:approve")
    await house.shows("SELECT status::text FROM agent_run", "completed", seconds=15)
    assert len(table.deleted) == 1
