"""An attempt at a call: at most once, and doubt is said to be doubt."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.audit import AuditKind
from agent.domain.policy import Policy
from agent.domain.request import ExecutionStatus, Verdict
from agent.domain.rules import Defaults
from agent.domain.run import CallState, CallView, RunStatus
from agent.runtime.agents import Agent
from agent.runtime.calls import advance_call
from agent.runtime.heartbeat import lease_clock
from agent.runtime.model_turn import advance_run
from agent.runtime.tool import NotDone, Tool, ToolContext, tool
from agent.runtime.user_code import BLOCKED
from agent.usecases import calls
from signoff.values import Action
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import alone

ALLOW = Policy(defaults=Defaults(unmatched="allow"))


def agent(*tools: Any) -> Agent:
    return Agent("worker", "Do it.", tools=tools)


def proposing(name: str, **arguments: Any) -> ScriptedTurn:
    return ScriptedTurn("I do it.", (ScriptedCall(name, arguments),))


async def attempts(on: Any) -> list[Any]:
    return await on.sql("SELECT status::text, result, error, late_result FROM execution ORDER BY attempt")


async def lose_leases(on: Any) -> None:
    """Let the worker be silent for longer than its lease."""
    await on.sql("UPDATE execution SET lease_until = clock_timestamp() - interval '1 second'")


async def test_a_sync_tool_that_outlives_its_timeout_is_in_doubt(stage) -> None:
    """Its thread cannot be stopped: the call is in doubt until it returns."""
    release = threading.Event()

    @tool(timeout=0.05)
    def slow() -> str:
        release.wait(10)
        return "done after all"

    on = await stage(agent(slow), policy=ALLOW)
    on.model.script(proposing("slow"), "Done.")
    run_id = await on.go("worker", "go")
    (call,) = await on.calls(run_id)
    assert call.state is CallState.IN_DOUBT
    ((status, _, error, late),) = await attempts(on)
    assert (status, late) == ("in_doubt", None)
    assert "0.05 s" in error
    release.set()

    async def reported() -> bool:
        return (await attempts(on))[0][0] == "succeeded"

    await on.until(reported)
    await on.play()
    assert (await attempts(on))[0][1] == "done after all"
    assert (await on.run(run_id)).answer == "Done."


async def test_an_async_tool_that_times_out_is_cancelled_and_in_doubt(stage) -> None:
    """A coroutine is cancelled at its timeout, and still nobody can know what it had done by then."""
    ended: list[str] = []

    @tool(timeout=0.05)
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "never"

    on = await stage(agent(slow), policy=ALLOW)
    on.model.script(proposing("slow"))
    run_id = await on.go("worker", "go")
    assert (await on.calls(run_id))[0].state is CallState.IN_DOUBT

    async def cancelled() -> bool:
        return ended == ["cancelled"]

    await on.until(cancelled)  # in a thread of its own


async def test_a_timeout_inside_a_tool_is_in_doubt(stage) -> None:
    """When something that the tool waited for timed out, its part may have been done."""

    @tool
    async def pay() -> str:
        raise TimeoutError("the bank did not answer")

    on = await stage(agent(pay), policy=ALLOW)
    on.model.script(proposing("pay"))
    run_id = await on.go("worker", "go")
    assert (await on.calls(run_id))[0].state is CallState.IN_DOUBT


async def test_a_read_only_tool_is_never_in_doubt(stage) -> None:
    """A look-up that times out has failed, and the model reads it."""

    @tool(read_only=True, timeout=0.05)
    async def look() -> str:
        await asyncio.Event().wait()
        return "never"

    on = await stage(agent(look))
    on.model.script(proposing("look"), "I could not look.")
    attempt_limit = calls.MAX_ATTEMPTS
    run_id = await on.go("worker", "go")
    for _ in range(attempt_limit - 1):
        await lose_leases(on)
        assert await calls.rescue(on.db) == 1
        await on.play()
    rows = await attempts(on)
    assert [row[0] for row in rows] == ["failed"] * attempt_limit
    assert (await on.run(run_id)).answer == "I could not look."


@pytest.mark.parametrize(
    ("raised", "answer"),
    [
        (
            ValueError("no such\ncolumn"),
            r"Error: ValueError: no such column \(test_runtime_attempts\.py:\d+\)",
        ),
        (NotDone("the table is empty"), "Nothing was done: the table is empty"),
        (SystemExit(3), "Error: RuntimeError: SystemExit: 3"),
    ],
)
async def test_an_exception_fails_the_call_and_is_told_in_one_line(stage, raised, answer) -> None:
    """The model reads type, message and line of what a tool raises: no traceback, and no end of the service."""

    @tool
    def fail() -> str:
        raise raised

    on = await stage(agent(fail), policy=ALLOW)
    on.model.script(proposing("fail"), "It failed.")
    run_id = await on.go("worker", "go")
    assert re.fullmatch(answer, on.model.requests[1]["messages"][-1]["content"])
    assert (await attempts(on))[0][0] == "failed"
    assert (await on.run(run_id)).status is RunStatus.COMPLETED


def slow_tool() -> tuple[Tool[[], Any], threading.Event, threading.Event]:
    """A tool that says when it has begun and ends when it is let."""
    begun, release = threading.Event(), threading.Event()

    @tool
    async def pay() -> str:
        begun.set()
        await asyncio.to_thread(release.wait, 10)
        return "paid"

    return pay, begun, release


async def test_a_worker_that_comes_back_ends_the_doubt_about_its_call(stage) -> None:
    """An attempt whose lease has expired is in doubt; when its own worker reports success later, the run continues."""
    pay, begun, release = slow_tool()
    on = await stage(agent(pay), policy=ALLOW)
    on.model.script(proposing("pay"), "Paid.")
    run_id = await on.start("worker", "go")
    playing = asyncio.create_task(on.play())
    assert await asyncio.to_thread(begun.wait, 10)
    await lose_leases(on)
    assert await calls.rescue(on.db) == 1
    (call,) = await on.calls(run_id)
    assert call.state is CallState.IN_DOUBT
    release.set()
    await playing
    ((status, result, known, late),) = await attempts(on)
    assert (status, result, late) == ("succeeded", "paid", None)
    assert "disappeared" in known
    assert (await on.run(run_id)).answer == "Paid."


async def test_the_heartbeat_keeps_a_long_call(stage) -> None:
    """While a tool runs its lease is extended, so that nobody takes it for lost."""
    pay, begun, release = slow_tool()
    on = await stage(agent(pay), policy=ALLOW)
    on.model.script(proposing("pay"), "Paid.")
    run_id = await on.start("worker", "go")
    playing = asyncio.create_task(on.play())
    assert await asyncio.to_thread(begun.wait, 10)
    await lose_leases(on)
    await on.services.heartbeat.beat()
    assert await calls.rescue(on.db) == 0
    release.set()
    await playing
    assert (await attempts(on))[0][0] == "succeeded"
    assert (await on.run(run_id)).answer == "Paid."


async def test_a_tool_that_could_not_begin_in_time_is_not_in_doubt(stage) -> None:
    """Behind another tool that blocks the loop of user code it has failed, and the model reads that nothing ran."""
    begun, release = threading.Event(), threading.Event()
    paid: list[int] = []

    async def block() -> None:
        begun.set()
        release.wait(10)

    @tool(timeout=0.05)
    async def pay() -> str:
        paid.append(1)
        return "paid"

    on = await stage(agent(pay), policy=ALLOW)
    blocking = asyncio.create_task(on.services.user_code.call(block, {}, name="tool block", within=10))
    assert await asyncio.to_thread(begun.wait, 10)
    on.model.script(proposing("pay"), "Not paid.")
    await on.go("worker", "go")
    release.set()
    await blocking
    assert on.model.requests[1]["messages"][-1]["content"] == f"Nothing was done: {BLOCKED}"
    assert ([row[0] for row in await attempts(on)], paid) == (["failed"], [])


@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="this platform has no clock that counts sleep"
)
async def test_sleep_of_the_machine_ends_a_lease(stage, monkeypatch) -> None:
    """While a machine sleeps its monotonic clock stops; the lease is judged by the clock that does not."""
    on = await stage(agent())
    heart, execution_id, read = on.services.heartbeat, uuid4(), time.clock_gettime
    with heart.holding_execution(execution_id, lease_clock()):
        assert heart.holds_lease(execution_id)
        slept = {time.CLOCK_BOOTTIME: 60.0}
        monkeypatch.setattr(time, "clock_gettime", lambda clock: read(clock) + slept.get(clock, 0.0))
        assert not heart.holds_lease(execution_id)


async def test_an_idempotent_tool_is_retried_with_the_same_key(stage) -> None:
    """An idempotent attempt that timed out is made again, with the key of the first."""
    keys: list[str] = []

    @tool(idempotent=True, timeout=0.5)
    async def pay(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "paid"

    on = await stage(agent(pay), policy=ALLOW)
    on.model.script(proposing("pay"), "Paid.")
    run_id = await on.go("worker", "go")
    await lose_leases(on)
    assert await calls.rescue(on.db) == 1
    await on.play()
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert (await on.run(run_id)).answer == "Paid."


async def test_a_stopped_service_leaves_doubt(stage) -> None:
    """Stopping the service in the middle of a tool marks the attempt in doubt at once."""
    begun = threading.Event()

    @tool
    async def pay() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "paid"

    on = await stage(agent(pay), policy=ALLOW)
    on.model.script(proposing("pay"))
    run_id = await on.start("worker", "go")
    await advance_run(on.services, run_id)
    (call,) = await on.calls(run_id)
    executing = asyncio.create_task(advance_call(on.services, call.id))
    assert await asyncio.to_thread(begun.wait, 10)
    executing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await executing
    assert (await on.calls(run_id))[0].state is CallState.IN_DOUBT


async def test_two_workers_run_a_call_once(stage) -> None:
    """Any number of workers may look at a ready call; one of them runs the tool."""
    ran: list[int] = []

    @tool
    async def pay() -> str:
        ran.append(1)
        await asyncio.sleep(0)
        return "paid"

    on = await stage(agent(pay))
    on.model.script(proposing("pay"), "Paid.")
    run_id = await on.go("worker", "go")
    (call,) = await on.calls(run_id)
    await on.vote(call, Verdict.APPROVE)
    workers = [on.other_worker() for _ in range(4)]
    await asyncio.gather(*(advance_call(worker, call.id) for worker in workers))
    assert ran == [1]
    assert [row[0] for row in await attempts(on)] == [ExecutionStatus.SUCCEEDED.value]


async def test_large_and_odd_results_can_be_told(stage) -> None:
    """A result is cut at 64 KiB with a word about it; what the database cannot hold is replaced."""

    @tool(read_only=True)
    def look() -> str:
        return "a\x00b\ud800" + "ü" * 70_000

    on = await stage(agent(look))
    on.model.script(proposing("look"), "Much.")
    run_id = await on.go("worker", "go")
    answer = on.model.requests[1]["messages"][-1]["content"]
    assert answer.startswith("a\ufffdb\ufffdü")
    assert answer.endswith("[cut: the first 64 KiB of 137 KiB]")
    assert (await on.run(run_id)).answer == "Much."


def test_a_fault_point_kills_the_process_at_the_named_pass() -> None:
    """SIGNOFF_FAULT ends the process at the n-th pass, as kill -9 would; names outside the catalogue are refused."""
    code = "from agent.fault_points import point; point('after_claim'); print('one', flush=True); point('after_claim')"

    def run(fault: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SIGNOFF_FAULT": fault}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    killed = run("after_claim:2")
    assert (killed.returncode, killed.stdout) == (137, "one\n")
    assert run("").returncode == 0
    assert "expected name or name:n" in run("after_lunch").stderr


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_claim_whose_commit_is_not_answered_is_looked_up(
    stage: Any, cutter: CommitCutter, cut: Cut, *, idempotent: bool
) -> None:
    """The tool runs once, whether the claim was written or not: no call is in doubt whose tool never began."""
    done: list[str] = []

    @tool(idempotent=idempotent)
    def pay() -> str:
        done.append("paid")
        return "paid"

    on = await stage(agent(pay))
    on.model.script(proposing("pay"))
    (call,) = await on.calls(await on.go("worker", "go"))
    await on.vote(call, Verdict.APPROVE)
    async with Database(cutter.url) as db:
        cutter.cut_next(cut)
        await advance_call(replace(on.services, db=db), call.id)
    assert cutter.cuts == 1
    assert done == ["paid"]
    assert await attempts(on) == [("succeeded", "paid", None, None)]


async def ready(stage: Any, tool: Any) -> tuple[Any, CallView]:
    """A call of this tool that may run, and that no worker looks at."""
    on = await stage(agent(tool), policy=ALLOW)
    on.model.script(proposing(tool.name))
    run_id = await on.start("worker", "go")
    await advance_run(on.services, run_id)
    (call,) = await on.calls(run_id)
    action = Action(tool.name, "1", {})
    await on.sql(
        "UPDATE tool_call SET state = 'ready', action = :action, digest = :digest, tool_version = '1'",
        action=action.canonical,
        digest=action.digest,
    )
    return on, call


async def test_a_claim_that_was_given_up_meanwhile_runs_nothing(stage: Any) -> None:
    """A worker that learns too late of its claim records once that the tool was not called, and does not call it."""

    @tool
    def pay() -> str:
        return "paid"

    on, call = await ready(stage, pay)
    claim = await alone.claim(on.db, call.id, worker="w", idempotent=False)
    assert claim is not None
    await lose_leases(on)
    await calls.rescue(on.db)
    for _ in range(2):  # the answer to the first look may be lost, too
        assert await calls.find_claim(on.db, call.run_id, call.id, claim.execution_id) is None
    late_results = await on.sql(
        "SELECT 1 FROM audit_event WHERE event = :event", event=AuditKind.EXECUTION_LATE_RESULT
    )
    assert len(late_results) == 1
    ((status, _, _, late),) = await attempts(on)
    assert (status, late) == ("in_doubt", "failed: the tool was never called")


@pytest.mark.parametrize(("read_only", "ends"), [(False, "in_doubt"), (True, "failed")])
async def test_a_call_that_ends_its_workers_is_not_tried_for_ever(
    stage: Any, ends: str, *, read_only: bool
) -> None:
    """After three lost attempts an idempotent call is in doubt, a read-only one failed; the run's thread reports it."""

    @tool(idempotent=not read_only, read_only=read_only)
    def crash() -> str:
        return ""

    on, call = await ready(stage, crash)
    for _ in range(calls.MAX_ATTEMPTS):
        claimed = await alone.claim(on.db, call.id, worker="w", idempotent=True, read_only=read_only)
        assert claimed is not None
        await lose_leases(on)
        assert await calls.rescue(on.db) == 1
    assert await alone.claim(on.db, call.id, worker="w", idempotent=True) is None
    assert [row[0] for row in await attempts(on)] == ["failed", "failed", ends]
    lines = await on.sql("SELECT body ->> 'line' FROM delivery WHERE kind = 'run_line'")
    assert (("in_doubt",) in lines) is not read_only


@pytest.mark.parametrize("code", ["disk_full", "read_only_sql_transaction", "deadlock_detected"])
async def test_a_result_that_the_database_refuses_for_now_is_written_later(
    stage: Any, owner: psycopg.Connection[Any], code: str
) -> None:
    """A full disk, a standby or a deadlock costs no result: it is reported again, and the tool runs once."""
    done: list[str] = []

    @tool
    def note() -> str:
        done.append("noted")
        return "noted"

    on, call = await ready(stage, note)
    owner.execute("SET search_path = signoff")
    owner.execute(_REFUSE_ONCE.format(code=code).encode())
    await advance_call(on.services, call.id)
    assert done == ["noted"]
    assert await on.sql("SELECT status::text, result FROM execution") == [("succeeded", "noted")]


_REFUSE_ONCE = """
CREATE SEQUENCE refusals;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = signoff AS $$ BEGIN
    IF nextval('refusals') = 1 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE UPDATE OF status ON execution FOR EACH ROW EXECUTE FUNCTION refuse();
"""
