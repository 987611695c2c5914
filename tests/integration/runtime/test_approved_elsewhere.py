"""A call that people approve in one process begins in another, in one transaction and without a look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent.database.pools import Database
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.request import Verdict
from agent.domain.run import CallState, CallView, RunStatus
from agent.runtime import executor as module
from agent.runtime.calls import advance_call
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.immediate_claims import claim_approved, process_votes
from agent.runtime.services import Services
from agent.usecases import pause
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import invariants
from tests.integration.runtime.conftest import Run, Stage
from tests.integration.runtime.test_immediate_claims import (
    Change,
    asked,
    cleaner,
    deletes,
    deploy,
    done,
    ended,
    prepared,
    state,
    unserved,
    vote,
)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


async def approved(on: Stage, call: CallView, verdict: Verdict = Verdict.APPROVE) -> Wakeup:
    """The wake-up of a call that a process without a worker lets people decide."""
    heard: list[Wakeup] = []

    def take(wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        heard.extend(each for each in wakeups if each.kind is WakeupKind.CALL)
        return ()

    unlisten = on.db.wakeups.listen(take)
    await vote(process_votes(on.services), call, verdict)
    unlisten()
    (wakeup,) = heard
    return wakeup


async def claim(services: Services, wakeup: Wakeup) -> bool:
    assert wakeup.approved is not None
    assert isinstance(wakeup.key, UUID)
    return await claim_approved(services, wakeup.key, *wakeup.approved)


def on_another(on: Stage, db: Database, worker: str) -> Services:
    return replace(on.services, db=db, worker=worker, heartbeat=Heartbeat(db, worker))


@pytest.mark.parametrize("options", [{}, {"idempotent": True}, {"background": True}], ids=str)
async def test_an_approved_call_begins_with_one_look(
    stage: Callable[..., Awaitable[Stage]], options: dict[str, Any]
) -> None:
    """One transaction reads, judges and claims it; the run receives the result."""
    on = await stage(cleaner(deletes(**options)))
    call = await asked(on, "users", *["It waits."] * options.get("background", False))
    wakeup = await approved(on, call)
    assert wakeup.approved == (call.run_id, call.request_id)
    assert await claim(on.services, wakeup)
    assert done == ["users"]
    assert await state(on, call) is CallState.ANSWERED
    on.model.script("Deleted.")
    await on.play()
    assert (await on.run(call.run_id)).status is RunStatus.COMPLETED
    assert await invariants.broken(on.db) == []


async def test_a_worker_that_never_looks_begins_what_a_web_process_announces(
    stage: Callable[..., Awaitable[Stage]],
    database_url: str,
    run: Run,
    no_looks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The announcement names the call, its run and its request: the claim follows without a poll or a read."""
    on = await stage(cleaner())
    call = await asked(on)
    looked: list[object] = []

    async def look(_: Services, call_id: UUID) -> None:
        looked.append(call_id)

    monkeypatch.setattr(module, "advance_call", look)
    await run(on.services)
    async with Database(database_url, announces=True) as web:
        await vote(process_votes(replace(on.services, db=web)), call)

    async def is_done() -> bool:
        return done == ["users"] and await state(on, call) is CallState.ANSWERED

    await on.until(is_done)
    assert looked == []


async def paused(on: Stage) -> None:
    await pause.pause(on.db, "cleaner", by="cli:ada")


async def retried_later(on: Stage) -> None:
    await on.sql("UPDATE tool_call SET retry_at = clock_timestamp() + interval '1 hour'")


@pytest.mark.parametrize(
    "changed",
    [
        unserved,
        retried_later,
        paused,
        ended,
        prepared,
        deploy(cleaner(deletes(facts=lambda what: {"rows": 7}))),
        deploy(cleaner(deletes(on_pending=lambda what: None))),
        deploy(cleaner(deletes(concurrency=1))),
        deploy(cleaner(deletes(version="2"))),
        deploy(cleaner(version="2")),
        deploy(cleaner(deletes(external=True))),
    ],
    ids=[
        "not served here", "retried later", "paused", "ended", "prepared", "facts", "on_pending",
        "concurrency", "another version", "another agent", "external",
    ],
)  # fmt: skip
async def test_what_has_changed_since_the_approval_needs_a_look(
    stage: Callable[..., Awaitable[Stage]], changed: Change
) -> None:
    """Nothing begins that a look could stop, and nothing is written: the call stays as it is."""
    on = await stage(cleaner())
    call = await asked(on)
    wakeup = await approved(on, call)
    if (change := changed(on)) is not None:
        await change
    before = await on.sql("SELECT state::text, xmin::text FROM tool_call")
    assert await claim(on.services, wakeup) is False
    assert done == []
    assert await on.sql("SELECT count(*) FROM execution") == [(0,)]
    if changed is not ended:  # that call is stopped
        assert await on.sql("SELECT state::text, xmin::text FROM tool_call") == before


async def test_a_forged_wake_up_begins_nothing(stage: Callable[..., Awaitable[Stage]]) -> None:
    """Whoever may notify can name any rows: only the approved call of this run and this request is claimed."""
    on = await stage(cleaner())
    waiting, other = await asked(on), await asked(on, "logs")
    wakeup = await approved(on, other)
    assert wakeup.approved is not None
    assert waiting.request_id is not None
    run_id, request_id = wakeup.approved
    for call_id, run, request in (
        (waiting.id, waiting.run_id, waiting.request_id),  # nobody has approved it
        (waiting.id, run_id, request_id),
        (other.id, waiting.run_id, request_id),
        (other.id, run_id, waiting.request_id),
        (other.id, uuid4(), request_id),
        (other.id, run_id, uuid4()),
        (uuid4(), run_id, request_id),
    ):
        assert await claim_approved(on.services, call_id, run, request) is False
    assert done == []
    assert await claim(on.services, wakeup)
    assert done == ["logs"]


async def test_of_many_workers_one_begins(stage: Callable[..., Awaitable[Stage]], database_url: str) -> None:
    """All workers hear of a call and try at once, with polls beside them: it begins once."""
    on = await stage(cleaner())
    calls = [await asked(on, f"table {number}") for number in range(6)]
    wakeups = [await approved(on, call) for call in calls]
    async with Database(database_url) as one, Database(database_url) as two:
        workers = [on_another(on, one, "one"), on_another(on, two, "two"), on.services]
        tries = [
            advance_call(worker, call.id) if worker is on.services else claim(worker, wakeup)
            for worker in workers
            for call, wakeup in zip(calls, wakeups, strict=True)
        ]
        await asyncio.gather(*tries)
    assert sorted(done) == sorted(f"table {number}" for number in range(6))
    assert await on.sql("SELECT count(*) FROM execution") == [(6,)]
    assert await invariants.broken(on.db) == []


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_claim_whose_commit_is_not_answered_is_looked_up(
    stage: Callable[..., Awaitable[Stage]], cutter: CommitCutter, cut: Cut
) -> None:
    """The tool runs once if the claim was written; if not, the call is ready for the look that follows."""
    on = await stage(cleaner())
    call = await asked(on)
    wakeup = await approved(on, call)
    async with Database(cutter.url) as db:
        cutter.cut_next(cut)
        assert await claim(on_another(on, db, "cut"), wakeup) is False
    assert cutter.cuts == 1
    written = cut == "after"
    assert done == ["users"] * written
    assert await state(on, call) is (CallState.ANSWERED if written else CallState.READY)
    on.model.script("Deleted.")
    await on.play()
    assert done == ["users"]
    assert await on.sql("SELECT status::text FROM execution") == [("succeeded",)]


async def test_a_service_that_stops_meanwhile_leaves_nothing_in_doubt(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """A claim that nobody waits for any more is reported as not begun, so nobody has to settle it."""
    on = await stage(cleaner())
    call = await asked(on)
    wakeup = await approved(on, call)
    claiming = asyncio.create_task(claim(on.services, wakeup))
    await asyncio.sleep(0)
    assert on.services.joint_writes.approved._tasks
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    await on.services.joint_writes.finish()
    assert done == []
    statuses = [status for (status,) in await on.sql("SELECT status::text FROM execution")]
    assert statuses in ([], ["failed"])


async def test_a_rejection_names_no_claim(stage: Callable[..., Awaitable[Stage]]) -> None:
    """Only an approval may be claimed; another outcome is looked at."""
    on = await stage(cleaner())
    call = await asked(on)
    assert (await approved(on, call, Verdict.REJECT)).approved is None
