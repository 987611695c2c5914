"""The stop switch: a paused agent begins nothing, approved or not, and continues when it is resumed."""

from __future__ import annotations

import asyncio

import pytest

from agent.domain.request import Verdict
from agent.domain.run import CallState, RunStatus
from agent.usecases import audit, pause
from signoff import function_agent, step, tool
from slackbot.cards import request_card, run_root
from tests.integration import alone

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@tool(requires_approval=True)
def delete(what: str) -> str:
    """Deletes it."""
    done.append(what)
    return "deleted"


@function_agent(tools=[delete])
async def cleaner(task: str) -> str:
    return await step(delete, what=task)


@function_agent(name="other", tools=[delete])
async def other(task: str) -> str:
    return await step(delete, what=task)


@pytest.mark.parametrize("scope", ["cleaner", None])
async def test_what_is_paused_does_not_begin(stage, scope):
    """An approved call of a paused agent waits, whatever wakes it, and begins when the agent is resumed."""
    s = await stage(cleaner)
    run_id = await s.go("cleaner", "users")
    assert await pause.pause(s.db, scope, by="cli:ada", reason="odd")
    await s.vote((await s.calls(run_id))[0], Verdict.APPROVE)
    await s.play()
    (call,) = await s.calls(run_id)
    assert (done, call.state) == ([], CallState.READY)
    assert (await s.request(call)).paused_by == "cli:ada"
    assert await alone.claim(s.db, call.id, worker="w", idempotent=False) is None

    assert await pause.resume(s.db, scope, by="cli:ada")
    await s.play()
    assert (done, (await s.run(run_id)).status) == (["users"], RunStatus.COMPLETED)


@pytest.mark.parametrize("scope", ["cleaner", None])
async def test_cards_that_wait_say_that_their_agent_is_paused_as_long_as_it_is(stage, scope):
    """They are drawn again when it is paused and when it is resumed; another agent's cards are left alone."""
    s = await stage(cleaner, other)
    run_id, others = await s.go("cleaner", "users"), await s.go("other", "logs")
    (call,), (left,) = await s.calls(run_id), await s.calls(others)
    due = "SELECT request_id FROM delivery WHERE kind = 'card' AND state = 'pending' ORDER BY request_id"
    asked = [await s.request(each) for each in ([call] if scope else [call, left])]
    theirs = sorted((each.id,) for each in asked)
    for turn in (pause.pause, pause.resume):
        await s.sql("UPDATE delivery SET state = 'sent'")
        assert await turn(s.db, scope, by="cli:ada")
        assert [tuple(row) for row in await s.sql(due)] == theirs
        shown = str(request_card(await s.request(call)).blocks)
        assert ("paused" in shown) is (turn is pause.pause)


async def test_one_agent_is_stopped_and_the_others_go_on(stage):
    """A pause names one agent; the others begin as ever."""
    s = await stage(cleaner, other)
    await pause.pause(s.db, "other", by="cli:ada")
    started = await s.start("cleaner", "users")
    await s.play()
    await s.approve((await s.calls(started))[0])
    assert done == ["users"]


@function_agent(name="boss", tools=[cleaner])
async def boss(task: str) -> str:
    return await step(cleaner, task=task)


async def test_who_stops_an_agent_stops_what_is_done_for_it(stage):
    """A pause of the parent agent holds the child's approved call and its turns, and the card says so."""
    s = await stage(boss, cleaner)
    parent, lonely = await s.go("boss", "users"), await s.go("cleaner", "logs")
    ((child,),) = await s.sql("SELECT id FROM agent_run WHERE parent_run_id = :id", id=parent)
    (call,), (other,) = await s.calls(child), await s.calls(lonely)
    await s.vote(call, Verdict.APPROVE)
    assert await pause.pause(s.db, "boss", by="cli:ada")
    await s.approve(other)
    assert done == ["logs"]
    view = await s.request(call)
    assert (view.paused_by, view.paused_agent, view.held_up) == ("cli:ada", "boss", True)
    assert "Agent boss paused" in str(request_card(view).blocks)
    assert (await s.request(other)).paused_by is None
    assert await alone.claim(s.db, call.id, worker="w", idempotent=False) is None
    assert await s.due() == []
    cards = "SELECT count(*) FROM delivery WHERE request_id = :id AND kind = 'card' AND wanted > 1"
    assert (await s.sql(cards, id=view.id))[0][0] == 1

    await s.sql("UPDATE agent_run SET inputs = inputs + 1 WHERE id = :id", id=child)
    assert await alone.lease(s.db, child, "w") is None
    assert await pause.resume(s.db, "boss", by="cli:ada")
    await s.play()
    assert (done, (await s.run(parent)).status) == (["logs", "users"], RunStatus.COMPLETED)


async def test_a_paused_agent_makes_no_turn(stage):
    """A run that is started while its agent is paused waits from its first turn on."""
    s = await stage(cleaner)
    await pause.pause(s.db, None, by="cli:ada")
    run_id = await s.go("cleaner", "users")
    assert list(await s.calls(run_id)) == []
    assert await s.due() == []
    await pause.resume(s.db, None, by="cli:ada")
    await s.play()
    assert len(await s.calls(run_id)) == 1


@pytest.mark.parametrize("scope", ["boss", None])
async def test_the_first_message_of_a_run_says_that_it_is_paused_and_by_whom(stage, scope):
    """Each that the pause concerns is drawn again: "Paused" for "Working", and beside "Waiting for review"."""
    s = await stage(boss, cleaner, other)
    parent, lonely = await s.go("boss", "users"), await s.start("other", "logs")
    ((child,),) = await s.sql("SELECT id FROM agent_run WHERE parent_run_id = :id", id=parent)
    due = "SELECT run_id FROM delivery WHERE kind = 'run_root' AND state = 'pending' ORDER BY run_id"
    concerned = sorted([parent, child] if scope else [parent, child, lonely])

    async def shown(run_id):
        return str(run_root(await s.run(run_id)).blocks)

    for turn in (pause.pause, pause.resume):
        await s.sql("UPDATE delivery SET state = 'sent'")
        assert await turn(s.db, scope, by="cli:ada")
        assert [tuple(row) for row in await s.sql(due)] == [(each,) for each in concerned]
        stopped = turn is pause.pause
        of_child, of_lonely = await shown(child), await shown(lonely)
        assert "Waiting for review" in of_child
        assert (f"Agent{' boss' if scope else ''} paused" in of_child, "cli:ada" in of_child) == (
            stopped,
            stopped,
        )
        assert ("⏸ Paused" in of_lonely, "▶ Working" in of_lonely) == (
            (stopped, not stopped) if scope is None else (False, True)
        )


async def test_turning_it_twice_changes_nothing_and_all_of_it_is_on_record(stage):
    """Each turn of the switch is one event of a chain that holds; a turn to where it stands is none."""
    s = await stage(cleaner)
    assert await pause.pause(s.db, None, by="slack:T1/U1")
    assert not await pause.pause(s.db, None, by="slack:T1/U2")
    assert not await pause.resume(s.db, "cleaner", by="slack:T1/U2")
    assert await pause.resume(s.db, None, by="slack:T1/U2")
    rows = await s.sql("SELECT actor, event FROM audit_event WHERE subject = 'pause' ORDER BY seq")
    assert [tuple(row) for row in rows] == [
        ("slack:T1/U1", "executions.paused"),
        ("slack:T1/U2", "executions.resumed"),
    ]
    assert (await audit.find_problems(s.db))[1] == []


async def test_when_a_pause_has_returned_nothing_begins(stage):
    """Claims race with the switch: none commits after the pause has returned."""
    s = await stage(cleaner)
    started = [await s.start("cleaner", f"user {n}") for n in range(8)]
    await s.play()
    for run_id in started:
        await s.vote((await s.calls(run_id))[0], Verdict.APPROVE)
    ready = [(await s.calls(run_id))[0].id for run_id in started]

    async def claim(call_id):
        return await alone.claim(s.db, call_id, worker="w", idempotent=False)

    claims = [asyncio.create_task(claim(call_id)) for call_id in ready]
    await pause.pause(s.db, None, by="cli:ada")
    (before,) = (await s.sql("SELECT count(*) FROM execution"))[0]
    taken = [each for each in await asyncio.gather(*claims) if each is not None]
    (after,) = (await s.sql("SELECT count(*) FROM execution"))[0]
    assert before == after == len(taken)
