"""A call on its way: judged, asked about, decided, executed or refused."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
import structlog

from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Verdict
from agent.domain.rules import Defaults, Rule
from agent.domain.run import AnswerKind, CallState, RunStatus
from agent.runtime.agents import Agent
from agent.runtime.calls import advance_call
from agent.runtime.model_turn import advance_run
from agent.runtime.tool import NotDone, Tool, ToolContext, tool
from agent.usecases import calls as call_usecases
from agent.usecases import requests, runs
from signoff.values import Person
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration import alone
from tests.statement_counter import counting

ASKER = Person("T0TEST", "U0ASKER")


class Table:
    """What the tools of these tests do to the world."""

    def __init__(self) -> None:
        self.done: list[Any] = []


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def delete(table: Table) -> Tool:
    @tool
    def delete_records(table_name: str, count: int = 10) -> str:
        """Delete records."""
        table.done.append((table_name, count))
        return f"Deleted {count} records from {table_name}"

    return delete_records


@pytest.fixture
def look(table: Table) -> Tool:
    @tool(read_only=True)
    async def count_records(table_name: str) -> dict[str, int]:
        """Count records."""
        table.done.append(("count", table_name))
        return {"records": 50}

    return count_records


def agent(*tools: Tool, **more: Any) -> Agent:
    return Agent("cleaner", "You keep tables tidy.", tools=tools, **more)


def proposing(*calls: tuple[str, Any]) -> ScriptedTurn:
    return ScriptedTurn(
        "I think this is needed.", tuple(ScriptedCall(name, arguments) for name, arguments in calls)
    )


TELL = Policy(defaults=Defaults(on_reject="tell_model"))
STOP = Policy(defaults=Defaults(on_reject="stop"))


async def test_read_only_calls_run_at_once_and_the_model_hears_the_result(stage, look, table) -> None:
    """A read-only tool is not asked about; its result is the tool message of the next turn."""
    on = await stage(agent(look))
    on.model.script(proposing(("count_records", {"table_name": "users"})), "There are 50.")
    run_id = await on.go("cleaner", "how many users are there?")
    run = await on.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "There are 50.")
    assert on.model.requests[1]["messages"][-1] == {
        "role": "tool", "tool_call_id": "call_1_0", "content": '{"records":50}'
    }  # fmt: skip


async def test_a_call_that_must_be_asked_parks_the_run(stage, delete, table) -> None:
    """While people decide there is no lease, nothing due, no execution: the run is a row that waits."""
    on = await stage(agent(delete))
    on.model.script(proposing(("delete_records", {"table_name": "users", "count": 50})))
    with structlog.testing.capture_logs() as logs:
        run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    assert (await on.run(run_id)).status is RunStatus.PENDING_APPROVAL
    assert call.state is CallState.ASKED
    assert await on.due() == []
    held = await on.sql("SELECT lease_until FROM agent_run UNION ALL SELECT lease_until FROM execution")
    assert [row[0] for row in held] == [None]
    assert table.done == []
    paused = [line for line in logs if line.get("action") == "run.paused"]
    assert [line["request_id"] for line in paused] == [str(call.request_id)]
    request = await on.request(call)
    assert request.rationale == "I think this is needed."
    assert request.action.arguments == {"table_name": "users", "count": 50}


async def test_an_approved_call_runs_once_with_what_was_approved(stage, delete, table) -> None:
    """Approval leads to one execution with the approved arguments, defaults included, and to the next turn."""
    on = await stage(agent(delete))
    on.model.script(proposing(("delete_records", {"table_name": "users"})), "Done, all clean.")
    run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    await on.approve(call)
    await on.play()
    assert table.done == [("users", 10)]
    assert (await on.run(run_id)).answer == "Done, all clean."
    assert (await on.request(call)).action.arguments == {"table_name": "users", "count": 10}


async def test_a_refusal_reaches_the_model_as_the_users(stage, delete, table) -> None:
    """With tell_model the run continues and the model reads who refused and why."""
    on = await stage(agent(delete), policy=TELL)
    on.model.script(proposing(("delete_records", {"table_name": "users"})), "Then I leave it.")
    run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    await on.reject(call, "we still need them")
    answer = on.model.requests[1]["messages"][-1]["content"]
    assert "A reviewer rejected this action" in answer
    assert "we still need them" in answer
    assert table.done == []
    assert (await on.run(run_id)).status is RunStatus.COMPLETED


async def test_a_refusal_that_stops_is_logged_and_reaches_the_parent(stage, delete, table) -> None:
    """With stop the run and its parent end as denied, and CollaborationError: rejected is logged for both."""
    on = await stage(agent(delete), policy=STOP)
    on.model.script("I have started another agent.", proposing(("delete_records", {"table_name": "users"})))
    parent = await on.go("cleaner", "have it cleaned")
    child = await on.start("cleaner", "clean up", parent=parent)
    await on.play()
    (call,) = await on.calls(child)
    with structlog.testing.capture_logs() as logs:
        await on.reject(call, "never")
    for run_id in (child, parent):
        run = await on.run(run_id)
        assert (run.status, run.cause) == (RunStatus.DENIED, "rejected")
    stopped = [line for line in logs if line.get("action") == "run.stopped"]
    assert [line["run_id"] for line in stopped] == [str(child), str(parent)]
    assert all(line["event"].startswith("CollaborationError: rejected") for line in stopped)
    assert all(line["log_level"] == "error" for line in stopped)
    assert table.done == []
    assert len(on.model.requests) == 2


MALFORMED = {
    "broken": '{"table_name": ',
    "twice": '{"table_name": "a", "table_name": "b"}',
    "not a number": '{"table_name": "a", "count": NaN}',
    "bent": '{"table_name": "a", "count": "5"}',
    "unknown": '{"table_name": "a", "really": true}',
    "missing": "{}",
    "array": "[1]",
    "nul": '{"table_name": "a\\u0000b"}',
    "raw nul": '{"table_name": "a\x00b"}',
    "empty": "",
    "huge": '{"table_name": "a", "count": 9007199254740993}',
}


@pytest.mark.parametrize("arguments", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_arguments_go_back_to_the_model(stage, delete, table, arguments) -> None:
    """Arguments that could be read in two ways, or not at all, are answered with the problem; nothing runs."""
    on = await stage(agent(delete))
    on.model.script(proposing(("delete_records", arguments)), "Sorry.")
    run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    assert call.answer is not None
    assert (call.answer.kind, call.request_id) == (AnswerKind.MALFORMED, None)
    said = on.model.requests[1]["messages"][-1]["content"]
    assert re.search(r"cannot be used, so it was not called: (\$\.|it )", said), said
    assert (await on.run(run_id)).status is RunStatus.COMPLETED
    assert table.done == []


async def test_an_unknown_tool_is_answered_with_the_known_ones(stage, look) -> None:
    """A tool that does not exist is an answer to the model, under a name that the API takes back."""
    on = await stage(agent(look))
    on.model.script(proposing(("drop table!", {})), "I see.")
    run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    assert call.answer is not None
    assert call.answer.kind is AnswerKind.UNKNOWN_TOOL
    *_, proposed, answer = on.model.requests[1]["messages"]
    assert proposed["tool_calls"][0]["function"]["name"] == "drop_table_"
    assert "count_records" in answer["content"]


async def test_parallel_calls_wait_for_the_last_decision(stage, delete, look, table) -> None:
    """Of three calls in one turn each goes its own way; the model speaks when the last one is answered."""
    on = await stage(agent(delete, look), policy=TELL)
    on.model.script(
        proposing(
            ("delete_records", {"table_name": "a"}),
            ("count_records", {"table_name": "b"}),
            ("delete_records", {"table_name": "c"}),
        ),
        "All settled.",
    )
    run_id = await on.go("cleaner", "clean up")
    first, counted, last = await on.calls(run_id)
    assert counted.state is CallState.ANSWERED
    await on.approve(first)
    assert ("a", 10) in table.done
    assert len(on.model.requests) == 1
    await on.reject(last, "no")
    assert len(on.model.requests) == 2
    answers = {
        m["tool_call_id"]: m["content"] for m in on.model.requests[1]["messages"] if m["role"] == "tool"
    }
    assert list(answers) == ["call_1_0", "call_1_1", "call_1_2"]
    assert answers["call_1_0"].startswith("Deleted 10")
    assert "rejected" in answers["call_1_2"]
    assert (await on.run(run_id)).answer == "All settled."


async def test_policy_can_deny_without_asking(stage, delete, table) -> None:
    """A denied call is answered with policy's word; nobody is asked, nothing runs."""
    on = await stage(agent(delete), policy=Policy(defaults=Defaults(unmatched="deny")))
    on.model.script(proposing(("delete_records", {"table_name": "a"})), "I see.")
    run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    assert (call.answer.kind, call.request_id, table.done) == (AnswerKind.DENIED, None, [])


async def test_facts_that_fail_are_asked_about(stage, table) -> None:
    """A look-up that raises never lets a call just run, even where unmatched tools are allowed."""

    def facts(order_id: int) -> dict[str, Any]:
        raise ConnectionError("shop is down")

    @tool(facts=facts)
    def pay(order_id: int) -> str:
        table.done.append(order_id)
        return "paid"

    on = await stage(agent(pay), policy=Policy(defaults=Defaults(unmatched="allow")))
    on.model.script(proposing(("pay", {"order_id": 1})))
    (call,) = await on.calls(await on.go("cleaner", "pay"))
    assert call.state is CallState.ASKED
    assert table.done == []


async def test_changed_facts_void_the_approval(stage, table) -> None:
    """Facts are looked up again before the tool runs; after a change people decide again, with the earlier facts."""
    price = [100]

    @tool(facts=lambda order_id: {"price": price[0]})
    def pay(order_id: int) -> str:
        table.done.append(order_id)
        return "paid"

    on = await stage(agent(pay))
    on.model.script(proposing(("pay", {"order_id": 1})), "Paid.")
    run_id = await on.go("cleaner", "pay")
    (call,) = await on.calls(run_id)
    price[0] = 900
    await on.approve(call)
    assert table.done == []
    (again,) = await on.calls(run_id)
    assert again.state is CallState.ASKED
    assert again.request_id != call.request_id
    asked = await on.request(again)
    assert (asked.facts, asked.previous_facts) == ({"price": 900}, {"price": 100})
    await on.approve(again)
    assert table.done == [1]
    assert (await on.run(run_id)).answer == "Paid."


@pytest.mark.parametrize("newer", ["tool", "agent"])
async def test_a_new_version_is_asked_anew(stage, table, newer) -> None:
    """What was approved for one version of a tool, or of its agent, does not run under another."""

    def pay(order_id: int) -> str:
        table.done.append(order_id)
        return "paid"

    on = await stage(agent(tool(version="1")(pay)))
    on.model.script(proposing(("pay", {"order_id": 1})))
    run_id = await on.go("cleaner", "pay")
    (call,) = await on.calls(run_id)
    now = tool(version="2" if newer == "tool" else "1")(pay)
    on.services.registry._agents["cleaner"] = agent(now, version="2" if newer == "agent" else "1")
    await on.approve(call)
    (again,) = await on.calls(run_id)
    assert again.request_id != call.request_id
    assert table.done == []
    await on.approve(again)
    assert table.done == [1]


AT_ONCE = Policy(
    (
        Rule(
            checkpoint_id="pay",
            action_pattern="pay",
            risk="low",
            on_reject="stop",
            execute_within=timedelta(microseconds=1),
        ),
    )
)
"""Under which every approval is too old when a worker gets to its call."""


async def test_an_approval_that_is_too_old_is_asked_again(stage, table) -> None:
    """After a long outage, or from a restored backup, nothing runs by an approval older than `execute_within`."""

    @tool
    def pay(order_id: int) -> str:
        table.done.append(order_id)
        return "paid"

    on = await stage(agent(pay), policy=AT_ONCE)
    on.model.script(proposing(("pay", {"order_id": 1})))
    run_id = await on.go("cleaner", "pay")
    (call,) = await on.calls(run_id)
    on.go_by(Policy())
    await on.approve(call)
    (again,) = await on.calls(run_id)
    assert (table.done, again.state, again.request_id == call.request_id) == ([], CallState.ASKED, False)
    old = await on.request(call)
    assert (old.voided, old.outdated) == (True, True)
    assert await on.sql("SELECT body ->> 'line' FROM delivery WHERE body ->> 'line' = 'outdated'")
    await on.approve(again)
    assert table.done == [1]


async def test_what_began_in_time_is_repeated_later(stage, table) -> None:
    """An attempt that is repeated because its worker is gone is no new beginning: people are not asked again."""

    @tool(idempotent=True)
    def pay(order_id: int) -> str:
        table.done.append(order_id)
        return "paid"

    on = await stage(agent(pay), policy=AT_ONCE)
    on.model.script(proposing(("pay", {"order_id": 1})))
    run_id = await on.go("cleaner", "pay")
    (call,) = await on.calls(run_id)
    await on.vote(call, Verdict.APPROVE)
    assert await alone.claim(on.db, call.id, worker="gone", idempotent=True)
    await on.sql("UPDATE execution SET lease_until = clock_timestamp() - interval '1 second'")
    assert await call_usecases.rescue(on.db) == 1
    await on.play()
    assert table.done == [1]


async def test_hooks_hear_of_waiting_and_of_the_no(stage, table) -> None:
    """on_pending runs once the request is open, on_refused with its cause before the run receives the refusal."""

    @tool(
        on_pending=lambda order_id: table.done.append(("pending", order_id)),
        on_refused=lambda order_id, cause: table.done.append((cause, order_id)),
    )
    def pay(order_id: int) -> str:
        return "paid"

    on = await stage(agent(pay), policy=TELL)
    on.model.script(proposing(("pay", {"order_id": 1})), "I see.")
    run_id = await on.go("cleaner", "pay")
    (call,) = await on.calls(run_id)
    assert table.done == [("pending", 1)]
    await on.reject(call)
    assert table.done == [("pending", 1), ("rejected", 1)]


async def test_a_hook_that_fails_at_first_is_tried_again(stage, table) -> None:
    """A hook may fail for a moment; it is run again, and the refusal goes through."""

    def refused(order_id: int) -> None:
        table.done.append(order_id)
        if len(table.done) == 1:
            raise ConnectionError

    @tool(on_refused=refused)
    def pay(order_id: int) -> str:
        return "paid"

    on = await stage(agent(pay), policy=TELL)
    on.model.script(proposing(("pay", {"order_id": 1})), "I see.")
    run_id = await on.go("cleaner", "pay")
    await on.reject((await on.calls(run_id))[0])
    assert table.done == [1, 1]
    assert (await on.run(run_id)).status is RunStatus.COMPLETED


async def test_a_tool_can_say_that_nothing_happened(stage, table) -> None:
    """NotDone from facts answers the call at once: nobody is asked about what cannot be done."""

    def facts(order_id: int) -> dict[str, Any]:
        raise NotDone("there is no such order")

    @tool(facts=facts)
    def pay(order_id: int) -> str:
        return "paid"

    on = await stage(agent(pay))
    on.model.script(proposing(("pay", {"order_id": 1})), "I see.")
    (call,) = await on.calls(await on.go("cleaner", "pay"))
    assert (call.state, call.request_id) == (CallState.ANSWERED, None)
    assert "there is no such order" in on.model.requests[1]["messages"][-1]["content"]


async def test_the_context_tells_a_tool_about_its_call(stage, table) -> None:
    """A parameter of its type gets ids, requester and idempotency key; the model never sees it, whatever its name."""

    @tool(read_only=True)
    def who(called: ToolContext) -> str:
        table.done.append(called)
        return "ok"

    on = await stage(agent(who))
    on.model.script(proposing(("who", {})), "Done.")
    run_id = await on.go("cleaner", "who asks?")
    (call,) = await on.calls(run_id)
    (ctx,) = table.done
    assert (ctx.run_id, ctx.call_id, ctx.agent) == (run_id, call.id, "cleaner")
    assert ctx.requester.user_id == "U0ASKER"
    assert on.model.requests[0]["tools"][0]["function"]["parameters"]["properties"] == {}


async def test_the_context_tells_hooks_about_the_call(stage, table) -> None:
    """A hook's parameter of that type gets the context, also if the tool has an argument of the same name."""

    def hold(whose: ToolContext, order_id: int) -> None:
        table.done.append((whose.agent, order_id))

    async def release(order_id: int, cause: str, context: ToolContext | None = None) -> None:
        table.done.append((cause, order_id, context))

    @tool(on_pending=hold, on_refused=release)
    def pay(order_id: int, whose: str, about: ToolContext) -> str:
        return "paid"

    on = await stage(agent(pay), policy=TELL)
    on.model.script(proposing(("pay", {"order_id": 1, "whose": "Ada's"})), "I see.")
    (call,) = await on.calls(await on.go("cleaner", "pay"))
    await on.reject(call)
    pending, (cause, order_id, context) = table.done
    assert (pending, cause, order_id, context.call_id) == (("cleaner", 1), "rejected", 1, call.id)


async def test_a_background_call_lets_the_chat_go_on(stage, table) -> None:
    """A background call is answered at once with the tool's words and the request id; the outcome is a note."""

    @tool(background=True, pending_text="Order {args.order_id} is under review.")
    def pay(order_id: int) -> str:
        table.done.append(order_id)
        return "paid"

    on = await stage(agent(pay))
    on.model.script(
        proposing(("pay", {"order_id": 7})),
        "It is being reviewed.",
        "Still being reviewed.",
        "It is paid now.",
    )
    run_id = await on.go("cleaner", "pay order 7")
    (call,) = await on.calls(run_id)
    answer = on.model.requests[1]["messages"][-1]["content"]
    assert answer.startswith(f"Order 7 is under review. (pending, request id {call.request_id})")
    run = await on.run(run_id)
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "It is being reviewed.")

    await runs.add_message(on.db, run_id, "and now?", None, "event-1")
    await on.play()
    assert on.model.requests[2]["tool_choice"] == "auto"
    await on.approve(call)
    assert table.done == [7]
    last = on.model.requests[3]["messages"][-1]
    assert last["role"] == "user"
    assert last["content"].startswith("[Report by Signoff, not by the user")
    assert "\n> Outcome of " in last["content"]
    assert "paid" in last["content"]
    assert (await on.run(run_id)).answer == "It is paid now."


async def test_a_message_to_a_blocked_run_is_answered_without_tools(stage, delete, table) -> None:
    """A message to a parked run gets an answer, made with tools off; the approval still resumes it."""
    on = await stage(agent(delete))
    on.model.script(
        proposing(("delete_records", {"table_name": "a"})),
        proposing(("delete_records", {"table_name": "b"})),
        "Done.",
    )
    run_id = await on.go("cleaner", "clean up")
    await runs.add_message(on.db, run_id, "how is it going?", None, "event-1")
    await on.play()
    assert on.model.requests[1]["tool_choice"] == "none"
    assert "not executed" in str(on.model.requests[1]["messages"])
    (call,) = await on.calls(run_id)
    assert (await on.run(run_id)).status is RunStatus.PENDING_APPROVAL
    await on.approve(call)
    assert table.done == [("a", 10)]
    assert (await on.run(run_id)).answer == "Done."


async def test_an_ended_run_asks_and_runs_nothing_more(stage, delete, table) -> None:
    """A call that is judged only after its run was stopped is neither asked about nor executed."""
    on = await stage(agent(delete), policy=STOP)
    on.model.script(
        proposing(("delete_records", {"table_name": "a"}), ("delete_records", {"table_name": "b"}))
    )
    run_id = await on.start("cleaner", "clean up")
    await advance_run(on.services, run_id)
    first, second = await on.calls(run_id)
    await advance_call(on.services, first.id)
    (first, second) = await on.calls(run_id)
    await on.vote(first, Verdict.REJECT)
    await advance_call(on.services, first.id)
    assert (await on.run(run_id)).status is RunStatus.DENIED
    await on.play()
    (_, second) = await on.calls(run_id)
    assert (second.state, second.request_id) == (CallState.ANSWERED, None)
    assert table.done == []
    assert (await on.run(run_id)).status is RunStatus.DENIED


async def test_an_expired_request_can_be_asked_again(stage, delete, table) -> None:
    """The requester asks again after an expiry: a new request, and its outcome wakes the run as a note."""
    on = await stage(agent(delete), policy=TELL)
    on.model.script(proposing(("delete_records", {"table_name": "a"})), "Nobody answered.", "Now it is done.")
    run_id = await on.go("cleaner", "clean up")
    (call,) = await on.calls(run_id)
    await on.sql(
        "UPDATE approval_request SET created_at = created_at - interval '2 days', "
        "expires_at = clock_timestamp() - interval '1 second'"
    )
    await requests.expire_due(on.db)
    await on.play()
    assert "this is not a rejection" in on.model.requests[1]["messages"][-1]["content"]
    await requests.ask_again(on.db, call.request_id, Standing(ASKER))
    await on.play()
    (_, again) = await on.calls(run_id)
    assert again.state is CallState.ASKED
    await on.approve(again)
    assert table.done == [("a", 10)]
    assert (await on.run(run_id)).answer == "Now it is done."


async def test_calls_that_are_looked_at_together_are_read_by_one_query(stage, delete) -> None:
    """After an outage a worker finds thousands of calls: it reads as many at a time as it advances, not each alone."""
    on = await stage(agent(delete))
    on.model.script(proposing(*(("delete_records", {"table_name": f"t{n}"}) for n in range(5))))
    calls = await on.calls(await on.go("cleaner", "tidy"))
    assert [call.state for call in calls] == [CallState.ASKED] * 5
    with counting() as counted:
        await asyncio.gather(*(advance_call(on.services, call.id) for call in calls))
    assert sum("AS retried_later" in each for each in counted.statements) == 1
