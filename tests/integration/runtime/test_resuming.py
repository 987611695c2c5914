"""A failed run is resumed from its record; what was executed is not done again."""

from __future__ import annotations

from uuid import UUID

import pytest

from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.rules import Defaults
from agent.domain.run import RunStatus
from agent.usecases.runs import resumption
from signoff import Agent, ask, function_agent, step, tool
from signoff.errors import Conflict
from signoff.values import Person
from signoff_demo.sandbox.model import ModelFault, ScriptedCall, ScriptedTurn
from tests.integration.invariants import broken
from tests.integration.runtime.conftest import ASKER, REVIEWER

done: list[str] = []
fixed = [False]


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()
    fixed[0] = False


@tool(requires_approval=True)
def pay(order: int) -> str:
    """Pay an order back."""
    done.append(f"order {order}")
    return f"paid back order {order}"


PAYING = ScriptedTurn(calls=(ScriptedCall("pay", {"order": 7}),))


async def resumed(on, run_id: UUID, **how) -> None:
    await resumption.resume(on.db, run_id, Standing(ASKER), **how)
    await on.play()


async def test_it_goes_on_after_a_model_failure_that_came_after_the_approval(stage):
    """The approved call ran once; the model reads its result, and the record says who resumed the run."""
    on = await stage(Agent("payer", "You pay.", [pay]))
    on.model.script(PAYING, ModelFault.http(401))
    run_id = await on.go("payer", "pay order 7")
    await on.approve((await on.calls(run_id))[0])
    assert (await on.run(run_id)).status is RunStatus.FAILED
    on.model.script("Order 7 is paid back.")
    await resumed(on, run_id)
    run = await on.run(run_id)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "Order 7 is paid back.", ["order 7"])
    assert any("paid back order 7" in str(said["content"]) for said in on.model.requests[-1]["messages"])
    events = await on.sql("SELECT actor, detail FROM audit_event WHERE event = 'run.resumed'")
    assert [tuple(each) for each in events] == [(f"slack:{ASKER}", {"path": "direct"})]
    lines = [
        row[0]
        for row in await on.sql("SELECT body ->> 'line' FROM delivery WHERE kind = 'run_line' ORDER BY id")
    ]
    assert lines[-3:] == ["failed", "resumed", "answer"]
    assert await broken(on.db) == []


async def test_only_its_requester_and_administrators_and_only_once(stage):
    """Others are refused on record, another thread is the wrong place, and a working run cannot be resumed."""
    on = await stage(Agent("payer", "You pay.", [pay]))
    on.model.script(ModelFault.http(401))
    run_id = await on.go("payer", "pay order 7")
    for by, thread, code in (
        (Standing(REVIEWER), None, Refusal.NOT_YOURS_TO_RESUME),
        (Standing(ASKER), ("C0OTHER", "1.2"), Refusal.WRONG_PLACE),
        (Standing(ASKER, refusal=Refusal.DEACTIVATED), None, Refusal.DEACTIVATED),
    ):
        with pytest.raises(Refused) as caught:
            await resumption.resume(on.db, run_id, by, thread=thread)
        assert caught.value.code is code
    refused = await on.sql(
        "SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'resume.refused' ORDER BY seq"
    )
    assert [row[0] for row in refused] == ["not_yours_to_resume", "wrong_place", "deactivated"]
    on.model.script("Fine.")
    admin = Standing(Person(ASKER.team_id, "U0ADMIN"))
    await resumption.resume(on.db, run_id, admin, administrator=True)
    with pytest.raises(Conflict, match="only a run that failed"):
        await resumption.resume(on.db, run_id, Standing(ASKER))
    await on.play()
    assert (await on.run(run_id)).answer == "Fine."


@pytest.mark.parametrize(
    ("limit", "cause"),
    [
        ({"max_tokens": 1}, "token limit"),
        ({"max_steps": 1}, "step limit"),
        ({"max_seconds": 0.001}, "time limit"),
    ],
)
async def test_limits_count_anew(stage, limit, cause):
    """A run that came to a limit after its approved call fails; resumed, it has as much once more."""
    on = await stage(Agent("payer", "You pay.", [pay], **limit))
    if "max_seconds" in limit:
        on.model.script("Never asked.")
        run_id = await on.go("payer", "pay order 7")
        assert cause in ((await on.run(run_id)).cause or "")
        return
    on.model.script(PAYING)
    run_id = await on.go("payer", "pay order 7")
    await on.approve((await on.calls(run_id))[0])
    run = await on.run(run_id)
    assert (run.status, cause in (run.cause or "")) == (RunStatus.FAILED, True)
    on.model.script("Done.")
    await resumed(on, run_id)
    assert ((await on.run(run_id)).answer, done) == ("Done.", ["order 7"])


async def test_waiting_for_people_is_not_time_of_the_run(stage, owner):
    """A day's wait for a decision counts nothing towards `max_seconds`; a day at work ends the run as failed."""
    on = await stage(Agent("payer", "You pay.", [pay], max_seconds=3600))
    on.model.script(PAYING, "Done.")
    waited = await on.go("payer", "pay order 7")
    for table in ("run_message", "approval_request"):
        owner.execute(f"UPDATE {table} SET created_at = created_at - interval '1 day'")
    await on.approve((await on.calls(waited))[0])
    assert (await on.run(waited)).answer == "Done."
    worked = await on.start("payer", "pay order 8")
    owner.execute(
        "UPDATE run_message SET created_at = created_at - interval '1 day' WHERE run_id = %s", (worked,)
    )
    await on.play()
    run = await on.run(worked)
    assert run.status is RunStatus.FAILED
    assert "time limit: at work for 86,40" in (run.cause or "")


def prepare() -> str:
    """Done once."""
    done.append("prepared")
    return "prepared"


@function_agent(tools=[prepare])
async def buggy(task: str) -> str:
    await step(prepare)
    (await ask("Go on?")).require()
    if not fixed[0]:
        raise ZeroDivisionError("a bug")
    return "fixed"


async def test_a_function_with_a_bug_goes_on_once_it_is_mended(stage):
    """With the mended code the run ends well, and neither its step nor its approved question is repeated."""
    on = await stage(buggy, policy=Policy(defaults=Defaults(unmatched="allow")))
    run_id = await on.go("buggy", "x")
    (asked,) = [call for call in await on.calls(run_id) if call.request_id]
    await on.approve(asked)
    assert (await on.run(run_id)).cause.startswith("ZeroDivisionError: a bug (test_resuming.py:")
    fixed[0] = True
    await resumption.resume_by_operator(on.db, run_id, "cli:root")
    await on.play()
    run = await on.run(run_id)
    assert (run.status, run.answer, done) == (RunStatus.COMPLETED, "fixed", ["prepared"])
    assert len(await on.calls(run_id)) == 2
    assert await on.due() == []
