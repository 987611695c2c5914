"""An approved call is claimed in the transaction that decides its request, where nothing speaks against it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from agent.database.address import Address
from agent.database.errors import OutcomeUnknown
from agent.database.pools import Database
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Ballot, RequestStatus, Verdict
from agent.domain.rules import Defaults
from agent.domain.run import CallState, CallView, RunStatus
from agent.runtime import immediate_claims
from agent.runtime.agents import Agent
from agent.runtime.immediate_claims import ImmediateClaims, process_votes
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.tool import Tool, tool
from agent.runtime.work_queue import WorkQueue
from agent.store import pause as switch
from agent.usecases import pause, requests
from agent.usecases.requests import Edit, VoteOutcome, Votes
from signoff.values import Action
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import invariants
from tests.integration.runtime.conftest import REVIEWER, Stage

done: list[str] = []
STANDING = Standing(REVIEWER, frozenset({"channel"}))


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def deletes(**options: Any) -> Tool:
    @tool(**options)
    def delete(what: str) -> str:
        """Deletes it."""
        done.append(what)
        return f"deleted {what}"

    return delete


def cleaner(*tools: Tool, version: str = "1") -> Agent:
    return Agent("cleaner", "You keep tables tidy.", tools=tools or (deletes(),), version=version)


def slots(number: int = 1) -> WorkQueue:
    """What runs the tools of a process, with so many free slots."""

    async def nothing(_: object) -> None: ...

    return WorkQueue(nothing, number, lambda: None)


async def asked(
    on: Stage, what: str = "users", *then: str | ScriptedTurn, parent: UUID | None = None
) -> CallView:
    """A call that people are asked about; ``then`` is what the model says meanwhile."""
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"what": what}),)), *then)
    run_id = await on.start("cleaner", f"delete {what}", parent=parent)
    await on.play()
    (call,) = await on.calls(run_id)
    assert call.state is CallState.ASKED
    return call


async def vote(
    votes: Votes, call: CallView, verdict: Verdict = Verdict.APPROVE, revision: int = 1
) -> VoteOutcome:
    assert call.request_id is not None
    return await votes.cast(
        Ballot(call.request_id, revision, verdict, STANDING, {REVIEWER: STANDING}, "test")
    )


async def state(on: Stage, call: CallView) -> CallState:
    return next(each.state for each in await on.calls(call.run_id) if each.id == call.id)


@pytest.mark.parametrize("options", [{}, {"idempotent": True}, {"background": True}], ids=str)
async def test_the_tool_runs_with_the_claim_of_the_vote(
    stage: Callable[..., Awaitable[Stage]], options: dict[str, Any]
) -> None:
    """No look and no wake-up is needed: decision and attempt are one transaction, and the run receives the result."""
    on = await stage(cleaner(deletes(**options)))
    meanwhile = ["It waits."] * options.get("background", False)
    call, calls = await asked(on, "users", *meanwhile), slots()
    assert (await vote(process_votes(on.services, calls), call)).status is RequestStatus.APPROVED
    await calls.stop(10)
    assert done == ["users"]
    events = "SELECT event, at FROM audit_event WHERE subject = 'request:' || :id ORDER BY seq"
    assert [event for event, _ in await on.sql(events, id=str(call.request_id))] == [
        "request.opened",
        "vote.cast",
        "request.decided",
        "execution.claimed",
        "execution.succeeded",
    ]
    assert await state(on, call) is CallState.ANSWERED
    on.model.script("Deleted.")
    await on.play()
    assert (await on.run(call.run_id)).status is RunStatus.COMPLETED
    assert done == ["users"]
    assert await invariants.broken(on.db) == []


Change = Callable[[Stage], Awaitable[None] | None]


def deploy(agent: Agent) -> Change:
    return lambda on: on.services.registry._agents.update(cleaner=agent)


def unserved(on: Stage) -> None:
    on.services.registry._agents.clear()


async def paused(on: Stage) -> None:
    await pause.pause(on.db, "cleaner", by="cli:ada")


async def ended(on: Stage) -> None:
    await on.sql("UPDATE agent_run SET status = 'failed', cause = 'odd'")


async def prepared(on: Stage) -> None:
    await on.sql("UPDATE tool_call SET held = action")


@pytest.mark.parametrize(
    "changed",
    [
        unserved,
        paused,
        ended,
        prepared,
        deploy(cleaner(deletes(facts=lambda what: {"rows": 7}))),
        deploy(cleaner(deletes(on_pending=lambda what: None))),
        deploy(cleaner(deletes(on_refused=lambda what: None))),
        deploy(cleaner(deletes(version="2"))),
        deploy(cleaner(version="2")),
        deploy(Agent("cleaner", "You keep tables tidy.", tools=())),
    ],
    ids=[
        "not served here", "paused", "ended", "prepared", "facts", "on_pending", "on_refused", "another version",
        "another agent", "no such tool",
    ],
)  # fmt: skip
async def test_what_has_to_be_looked_at_first_becomes_ready(
    stage: Callable[..., Awaitable[Stage]], changed: Change
) -> None:
    """A vote claims no call that needs a look-up, a message or another question first; the decision counts anyway."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    if (change := changed(on)) is not None:
        await change
    assert (await vote(process_votes(on.services, calls), call)).status is RequestStatus.APPROVED
    assert (done, await state(on, call)) == ([], CallState.READY)
    assert calls.reserve(1) == 1, "the slot was not given back"


@pytest.mark.parametrize("door", ["its vote", "its announcement", "a look"])
async def test_an_approval_runs_no_other_tool(stage: Callable[..., Awaitable[Stage]], door: str) -> None:
    """A row that has come to name another tool, of the same version and parameters, lets that tool do nothing."""

    @tool
    def purge(what: str) -> None:
        """Deletes it for ever."""
        done.append(f"purged {what}")

    on = await stage(cleaner(deletes(), purge))
    call = await asked(on)
    await on.sql("UPDATE tool_call SET tool = 'purge'")
    calls = slots()
    await vote(process_votes(on.services, calls if door == "its vote" else None), call)
    await calls.stop(10)
    assert call.request_id is not None
    if door == "its announcement":
        assert not await immediate_claims.claim_approved(on.services, call.id, call.run_id, call.request_id)
    elif door == "a look":
        await on.play()
        assert await state(on, call) is CallState.ASKED
    assert done == []


@pytest.mark.parametrize("wait", [True, False], ids=["alone", "together"])
async def test_while_the_switch_is_turned_a_vote_claims_nothing(
    stage: Callable[..., Awaitable[Stage]], wait: bool
) -> None:
    """A vote waits for nobody who pauses or applies a policy: it counts, and its call is looked at afterwards."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    assert call.request_id is not None
    ballot = Ballot(call.request_id, 1, Verdict.APPROVE, STANDING, {REVIEWER: STANDING}, "test")
    claims = ImmediateClaims(on.services, calls, calls.reserve(1))
    async with on.db.transaction() as tx:
        await switch.lock_switch(tx)
        [outcome] = await requests.count_votes(on.db, [ballot], wait=wait, claimant=claims)
    assert isinstance(outcome, VoteOutcome)
    assert outcome.status is RequestStatus.APPROVED
    assert (done, await state(on, call)) == ([], CallState.READY)


@pytest.mark.parametrize("calls", [None, slots(0)], ids=["no worker", "no free slot"])
async def test_without_a_free_slot_the_call_becomes_ready(
    stage: Callable[..., Awaitable[Stage]], calls: WorkQueue | None
) -> None:
    """A process that cannot run the tool now leaves the call to the next look."""
    on = await stage(cleaner())
    call = await asked(on)
    await vote(process_votes(on.services, calls), call)
    assert (done, await state(on, call)) == ([], CallState.READY)
    on.model.script("Deleted.")
    await on.play()
    assert done == ["users"]


@pytest.mark.parametrize("now", [{"unmatched": "deny"}, {"approvals_required": 2}], ids=str)
async def test_policy_that_is_stricter_by_now_is_heard(
    stage: Callable[..., Awaitable[Stage]], now: dict[str, Any]
) -> None:
    """A call that policy has come to deny, or asks more about, is not claimed with its approval."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    services = replace(on.services, policies=PolicyInForce(on.db, Policy(defaults=Defaults(**now))))
    await vote(process_votes(services, calls), call)
    assert (done, await state(on, call)) == ([], CallState.READY)


@pytest.mark.parametrize(
    "held",
    [
        "SELECT 1 FROM agent_run FOR NO KEY UPDATE",
        "SELECT pg_advisory_xact_lock(hashtextextended('signoff pause ' || current_schema(), 0))",
    ],
    ids=["run", "stop switch"],
)
async def test_a_vote_waits_neither_for_its_run_nor_for_the_stop_switch(
    stage: Callable[..., Awaitable[Stage]], database_url: str, held: str
) -> None:
    """While somebody holds the run, or turns the switch, the decision is written and the call becomes ready."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    async with await psycopg.AsyncConnection.connect(Address.read(database_url).conninfo("holder")) as holder:
        await holder.execute(held)
        assert (await vote(process_votes(on.services, calls), call)).status is RequestStatus.APPROVED
        await holder.rollback()
    assert (done, await state(on, call)) == ([], CallState.READY)


async def test_an_edited_action_becomes_ready(stage: Callable[..., Awaitable[Stage]]) -> None:
    """An edited call takes the ordinary path, on which everybody is informed of the change."""
    editable = Defaults(allow_edit=True, editor_may_approve=True)
    on = await stage(cleaner(), policy=Policy(defaults=editable))
    call, calls = await asked(on), slots()
    assert call.request_id is not None
    action = Action("delete", "1", {"what": "logs"})
    await requests.edit(on.db, Edit(call.request_id, 1, STANDING, action, None, None, path="test"))
    await vote(process_votes(on.services, calls), call, revision=2)
    assert (done, await state(on, call)) == ([], CallState.READY)


async def test_a_call_of_a_child_run_becomes_ready(stage: Callable[..., Awaitable[Stage]]) -> None:
    """What an agent does for another one is claimed behind the locks of both."""
    on = await stage(cleaner())
    above, calls = await asked(on), slots()
    below = await asked(on, "logs", parent=above.run_id)
    await vote(process_votes(on.services, calls), below)
    assert (done, await state(on, below)) == ([], CallState.READY)


async def test_a_vote_that_decides_nothing_claims_nothing(stage: Callable[..., Awaitable[Stage]]) -> None:
    """A first approval of two, and a rejection, take no slot with them."""
    on = await stage(cleaner(), policy=Policy(defaults=Defaults(approvals_required=2)))
    call, calls = await asked(on), slots()
    assert (await vote(process_votes(on.services, calls), call)).status is RequestStatus.WAITING
    assert await state(on, call) is CallState.ASKED
    assert (
        await vote(process_votes(on.services, calls), call, Verdict.REJECT)
    ).status is RequestStatus.REJECTED
    assert (done, await state(on, call)) == ([], CallState.REFUSED)
    assert calls.reserve(1) == 1


async def test_a_judge_that_fails_costs_no_vote(
    stage: Callable[..., Awaitable[Stage]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong while a call is judged, the vote counts and the call becomes ready."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()

    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(immediate_claims, "judge", broken)
    assert (await vote(process_votes(on.services, calls), call)).status is RequestStatus.APPROVED
    assert (done, await state(on, call)) == ([], CallState.READY)


async def test_a_claim_that_the_database_refuses_costs_no_vote(
    stage: Callable[..., Awaitable[Stage]], owner: psycopg.Connection[Any]
) -> None:
    """The decision is committed without the claim that cannot be written; the call is ready."""
    on = await stage(cleaner())
    call = await asked(on)
    owner.execute("SET search_path = signoff")
    owner.execute(_NO_CLAIMS)
    queue = slots()
    assert (await vote(process_votes(on.services, queue), call)).status is RequestStatus.APPROVED
    assert await on.sql("SELECT state::text FROM tool_call") == [("ready",)]
    assert await on.sql("SELECT count(*) FROM execution") == [(0,)]
    assert queue.reserve(1) == 1


_NO_CLAIMS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = signoff AS $$ BEGIN
    RAISE EXCEPTION 'not this one';
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON execution FOR EACH ROW EXECUTE FUNCTION refuse();
"""


async def test_once_a_pause_has_returned_no_vote_begins_anything(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """Votes and a pause at once: whatever is claimed was claimed before the pause had returned."""
    on = await stage(cleaner())
    waiting = [await asked(on, f"table {number}") for number in range(6)]
    calls = slots(6)
    votes = process_votes(on.services, calls)
    voting = [asyncio.create_task(vote(votes, call)) for call in waiting]
    await pause.pause(on.db, "cleaner", by="cli:ada")
    ((begun,),) = await on.sql("SELECT count(*) FROM execution")
    await asyncio.gather(*voting)
    await calls.stop(10)
    assert await on.sql("SELECT count(*) FROM execution") == [(begun,)]
    assert await on.sql("SELECT count(*) FROM tool_call WHERE state = 'ready'") == [(6 - begun,)]
    assert len(done) == begun


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_claim_whose_commit_is_not_answered_is_looked_up(
    stage: Callable[..., Awaitable[Stage]], cutter: CommitCutter, cut: Cut
) -> None:
    """The voter reads that the outcome is unknown; the tool runs once if the decision was written, otherwise not at
    all.
    """
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    async with Database(cutter.url) as db:
        cutter.cut_next(cut)
        with pytest.raises(OutcomeUnknown):
            await vote(process_votes(replace(on.services, db=db), calls), call)
        await calls.stop(10)
    assert cutter.cuts == 1
    written = cut == "after"
    assert done == ["users"] * written
    assert await state(on, call) is (CallState.ANSWERED if written else CallState.ASKED)
    assert await on.sql("SELECT status::text FROM execution") == [("succeeded",)] * written


async def test_a_stopping_service_runs_what_it_has_claimed(stage: Callable[..., Awaitable[Stage]]) -> None:
    """A vote that is in progress when the service stops may still claim; its tool runs within the drain time."""
    on = await stage(cleaner())
    call, calls = await asked(on), slots()
    voting = asyncio.create_task(vote(process_votes(on.services, calls), call))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(calls.stop(10))
    await voting
    await stopping
    assert done == ["users"]
    assert calls.reserve(1) == 0


async def test_calls_of_one_run_are_claimed_by_one_wave(stage: Callable[..., Awaitable[Stage]]) -> None:
    """Three approvals for the calls of one turn are one transaction; the run works again when the last is decided."""
    go_on = threading.Event()

    @tool
    def delete(what: str) -> str:
        """Deletes it, as soon as it may."""
        go_on.wait(30)
        done.append(what)
        return f"deleted {what}"

    on = await stage(cleaner(delete))
    names = ["users", "logs", "mails"]
    on.model.script(ScriptedTurn(calls=tuple(ScriptedCall("delete", {"what": name}) for name in names)))
    run_id = await on.go("cleaner", "tidy up")
    waiting = await on.calls(run_id)
    calls = slots(3)
    votes = process_votes(on.services, calls)
    await asyncio.gather(*(vote(votes, call) for call in waiting))
    assert await on.sql("SELECT count(DISTINCT xmin::text) FROM decision") == [(1,)]
    assert await on.sql("SELECT status::text FROM agent_run") == [("working",)]
    go_on.set()
    await calls.stop(10)
    assert sorted(done) == sorted(names)
    on.model.script("Deleted.")
    await on.play()
    assert (await on.run(run_id)).status is RunStatus.COMPLETED
    assert await invariants.broken(on.db) == []


async def test_more_approvals_than_free_slots(stage: Callable[..., Awaitable[Stage]]) -> None:
    """A wave claims no more than there are free slots; the other calls become ready."""
    on = await stage(cleaner())
    waiting = [await asked(on, f"table {number}") for number in range(4)]
    calls = slots(3)
    votes = process_votes(on.services, calls)
    await asyncio.gather(*(vote(votes, call) for call in waiting))
    await calls.stop(10)
    assert len(done) == 3
    assert sorted([await state(on, call) for call in waiting]) == ["answered"] * 3 + ["ready"]


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_wave_of_claims_whose_commit_is_not_answered_is_looked_up(
    stage: Callable[..., Awaitable[Stage]], cutter: CommitCutter, cut: Cut
) -> None:
    """Of twelve approvals together each tool runs once if they were written, and none is in doubt or holds a slot."""
    on = await stage(cleaner())
    names = [f"table {number}" for number in range(12)]
    waiting, calls = [await asked(on, name) for name in names], slots(12)
    async with Database(cutter.url) as db:
        votes = process_votes(replace(on.services, db=db), calls)
        cutter.cut_next(cut)
        answers = await asyncio.gather(*(vote(votes, call) for call in waiting), return_exceptions=True)
        await calls.stop(30)
    assert cutter.cuts == 1
    assert [type(each) for each in answers] == [OutcomeUnknown] * 12
    written = cut == "after"
    assert sorted(done) == sorted(names) * written
    states = {await state(on, call) for call in waiting}
    assert states == {CallState.ANSWERED if written else CallState.ASKED}
    assert await on.sql("SELECT count(*) FROM execution WHERE status <> 'succeeded'") == [(0,)]
    assert await invariants.broken(on.db) == []


async def test_a_call_that_hands_a_task_down_becomes_ready(stage: Callable[..., Awaitable[Stage]]) -> None:
    """An agent as a tool has nothing to run: its call is handed down by a worker, as ever."""
    other = Agent("other", "You help.", tools=())
    boss = cleaner(other.as_tool(name="delete", requires_approval=True))
    on = await stage(boss, other)
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"task": "users"}),)))
    (call,) = await on.calls(await on.go("cleaner", "tidy up"))
    await vote(process_votes(on.services, slots()), call)
    assert await state(on, call) is CallState.READY
