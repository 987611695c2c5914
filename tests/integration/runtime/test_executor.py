"""The executor: finds what is to be done, is woken, takes turns, and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.database.pools import Database
from agent.database.precedence import Precedence, Rank
from agent.database.transaction import fetch
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.policy import Policy
from agent.domain.request import Verdict
from agent.domain.rules import Defaults
from agent.runtime import executor as module
from agent.runtime import shutdown, work_queue
from agent.runtime.agents import Agent
from agent.runtime.executor import Look
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.services import Services
from agent.runtime.tool import tool
from agent.store import due_work
from agent.store.due_work import Lane
from agent.usecases import pause, runs
from agent.usecases.runs import NewRun
from tests.integration.runtime.conftest import ASKER, CHANNEL, NEVER, TEAM, Run, Stage
from tests.integration.runtime.test_runtime_calls import proposing

FREELY = Policy(defaults=Defaults(unmatched="allow"))


@tool
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


AGENT = Agent("refunds", "You refund.", [refund])


async def start_run(db: Database, agent: str = "refunds") -> UUID:
    new = NewRun(agent, "1", "refund order 7", "test", ASKER, "slack", TEAM, CHANNEL)
    return (await runs.start(db, new)).run_id


async def calls_of(stage: Stage, agent: str, number: int, state: str = "ready") -> list[UUID]:
    """So many calls of that agent in this state, each of a run of its own, the oldest first."""
    rows = await stage.sql(CALLS, agent=agent, number=number, state=state)
    return [row[0] for row in rows]


CALLS = """
WITH run AS (
    INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted)
    SELECT gen_random_uuid(), :agent, '1', 'task', 'test', 'none' FROM generate_series(1, :number) RETURNING id
), call AS (
    INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, blocking, state, action,
                           digest, created_at, executor)
    SELECT gen_random_uuid(), id, :agent, 1, 0, 'c', 'refund', '{}', true, CAST(:state AS call_state), 'a',
           sha256('a'), clock_timestamp(), 'here' FROM run RETURNING id, created_at
)
SELECT id FROM call ORDER BY created_at
"""


async def test_a_process_that_serves_itself_announces_nothing(
    stage: Callable[..., Awaitable[Stage]],
    database_url: str,
    run: Run,
    no_looks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the start of a run to its end every step follows from a wake-up of the one before, without one NOTIFY."""
    s = await stage(AGENT, policy=FREELY)
    s.model.script(proposing(("refund", {"order": 7})), "It is refunded.")
    announced: list[object] = []

    async def announce(text: str) -> None:
        announced.append(text)

    async with Database(database_url, announces=True) as db:
        monkeypatch.setattr(db.wakeups, "_announce", announce)
        # In the service, the poller of deliveries takes these.
        db.wakeups.listen(lambda wakeups: [each for each in wakeups if each.kind is not WakeupKind.CHANNEL])
        await run(replace(s.services, db=db))
        run_id = await start_run(db)

        async def ended() -> bool:
            return (await s.run(run_id)).answer == "It is refunded."

        await s.until(ended)
    assert announced == []


async def test_no_model_turn_begins_while_a_person_waits(
    stage: Callable[..., Awaitable[Stage]], run: Run
) -> None:
    """A click goes first: a run that is due takes its turn when the click has been answered."""
    s = await stage(AGENT)
    s.db.precedence = Precedence(dict.fromkeys(Rank, NEVER))
    executor = await run(s.services)
    with s.db.precedence.at_work(Rank.PERSON):
        run_id = await start_run(s.db)
        executor.take([Wakeup.run(run_id, "refunds")])
        for _ in range(50):  # a lease takes two round trips to the database
            assert await s.sql("SELECT 1 FROM agent_run WHERE lease_until IS NOT NULL") == []

    async def answered() -> bool:
        return (await s.run(run_id)).turn == 1

    await s.until(answered)


async def test_work_of_another_process_begins_at_once(
    stage: Callable[..., Awaitable[Stage]], database_url: str, run: Run, no_looks: None
) -> None:
    """A run that is started in a process without a worker is begun by one that does not look by itself."""
    s = await stage(AGENT)
    await run(s.services)
    async with Database(database_url, announces=True) as web:
        run_id = await start_run(web)

    async def answered() -> bool:
        return (await s.run(run_id)).turn == 1

    await s.until(answered)


async def test_what_nobody_has_announced_is_found(
    stage: Callable[..., Awaitable[Stage]], run: Run, database_url: str
) -> None:
    """A wake-up that is lost costs one look."""
    s = await stage(AGENT)
    await run(s.services)
    async with Database(database_url) as other:  # it announces nothing
        run_id = await start_run(other)

    async def answered() -> bool:
        return (await s.run(run_id)).turn == 1

    await s.until(answered)


async def test_a_backlog_takes_few_looks(
    stage: Callable[..., Awaitable[Stage]], run: Run, no_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred ready calls after an outage are begun with one look for about eighty of them."""
    s = await stage(AGENT)
    waiting = await calls_of(s, "refunds", 500)
    begun: set[UUID] = set()
    looks, all_begun = 0, asyncio.Event()
    find = Look.find

    async def counted(look: Look) -> list[Wakeup]:
        nonlocal looks
        looks += 1
        return await find(look)

    async def answer(services: Services, call_id: UUID) -> None:
        async with services.db.transaction() as tx:
            await tx.execute(ANSWER, {"id": call_id})
        begun.add(call_id)
        if len(begun) == len(waiting):
            all_begun.set()

    monkeypatch.setattr(Look, "find", counted)
    monkeypatch.setattr(module, "advance_call", answer)
    await run(s.services)
    await asyncio.wait_for(all_begun.wait(), 60)
    assert begun == set(waiting)
    assert looks < 10


ANSWER = text("""
UPDATE tool_call SET state = 'answered', answer_kind = 'result', answered_at = clock_timestamp() WHERE id = :id
""")


async def test_a_flood_of_one_agent_hides_nothing_of_another(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """However many older calls of one agent are ready, the first look finds a call and a run of another one."""
    s = await stage()
    await calls_of(s, "flood", 300)
    [call_id] = await calls_of(s, "other", 1)
    run_id = await start_run(s.db, "other")
    found = await Look(s.db, lambda: ["flood", "other"]).find()
    assert Wakeup.call(call_id, "other", first=True) in found
    assert Wakeup.run(run_id, "other") in found
    assert len(found) == 102


async def test_what_cannot_be_done_hides_nothing(stage: Callable[..., Awaitable[Stage]]) -> None:
    """Each look continues where the one before has ended, so calls that stay as they are do not hide later ones."""
    s = await stage()
    new, ready = await calls_of(s, "a", 5, "new"), await calls_of(s, "a", 2)
    look = Look(s.db, lambda: ["a"], page=2)
    pages, more = [], []
    for _ in range(4):
        pages.append([each.key for each in await look.find()])
        more.append(look.more)
    assert pages == [[*ready, *new[:2]], new[2:4], [*ready, new[4]], new[:2]]
    assert more == [True, True, True, True]


@pytest.mark.parametrize("bound", ["tool", "agent"])
async def test_a_bounded_tool_runs_call_by_call(
    stage: Callable[..., Awaitable[Stage]], run: Run, no_looks: None, bound: str
) -> None:
    """Of a tool or an agent that allows one call at a time, each call begins when the one before has ended."""
    at_once: list[int] = []
    running = 0

    @tool(concurrency=1 if bound == "tool" else None)
    async def count(order: int) -> str:
        """Count who runs."""
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.01)
        running -= 1
        return f"counted {order}"

    agent = Agent("refunds", "You count.", [count], concurrency=1 if bound == "agent" else None)
    s = await stage(agent, policy=FREELY)
    s.model.script(proposing(*(("count", {"order": n}) for n in range(4))), "They are counted.")
    await run(s.services)
    run_id = await start_run(s.db)

    async def ended() -> bool:
        return (await s.run(run_id)).answer == "They are counted."

    await s.until(ended)
    assert at_once == [1, 1, 1, 1]


async def test_what_waits_for_room_looks_nothing_up(
    stage: Callable[..., Awaitable[Stage]], run: Run, no_looks: None
) -> None:
    """Facts of approved calls are looked up when their turn has come, once, however many wait for one at a time."""
    asked_for: list[int] = []

    def price(order: int) -> dict[str, int]:
        asked_for.append(order)
        return {"price": 7}

    @tool(facts=price, concurrency=1)
    async def pay(order: int) -> str:
        """Pay an order."""
        await asyncio.sleep(0)
        return f"paid {order}"

    s = await stage(Agent("refunds", "You pay.", [pay]))
    s.model.script(proposing(*(("pay", {"order": n}) for n in range(4))), "They are paid.")
    run_id = await s.go("refunds", "pay them")
    for call in await s.calls(run_id):
        await s.vote(call, Verdict.APPROVE)
    asked_for.clear()
    await run(s.services)

    async def ended() -> bool:
        return (await s.run(run_id)).answer == "They are paid."

    await s.until(ended)
    assert sorted(asked_for) == [0, 1, 2, 3]


@pytest.mark.parametrize("bound", ["tool", "agent"])
async def test_a_bound_across_processes(
    stage: Callable[..., Awaitable[Stage]], run: Run, no_looks: None, database_url: str, bound: str
) -> None:
    """Of two services on one database each begins a call only while less than the allowed number is claimed in both.

    The others wait for no look: each of them begins when a call ends, in whichever service.
    """
    begun: list[int] = []
    ended: list[int] = []
    at_once: list[int] = []
    released = Event()

    def bounded(where: str) -> dict[str, Any]:
        return {"concurrency": 2, "across_processes": True} if bound == where else {}

    @tool(**bounded("tool"))
    def count(order: int) -> str:
        """Count who runs."""
        begun.append(order)
        at_once.append(len(begun) - len(ended))
        released.wait(30)
        ended.append(order)
        return f"counted {order}"

    s = await stage(Agent("refunds", "You count.", [count], **bounded("agent")), policy=FREELY)
    four = [("count", {"order": n}) for n in range(4)]
    s.model.script(proposing(*four), proposing(*four), "Done.", "Done.")
    async with Database(database_url, announces=True) as one, Database(database_url, announces=True) as two:
        services = [
            replace(s.services, db=db, worker=name, heartbeat=Heartbeat(db, name))
            for name, db in (("one", one), ("two", two))
        ]
        for each in services:
            await run(each)
        started = [await start_run(each.db) for each in services]

        claimed = 0

        async def all_tried() -> bool:
            nonlocal claimed
            rows = await s.sql("SELECT id, state = 'claimed' AS claimed FROM tool_call")
            claimed = sum(row.claimed for row in rows)
            waiting = [row for row in rows if any(on.concurrency.waits(row.id) for on in services)]
            tried = {row.id for row in rows if row.claimed or row in waiting}
            return claimed >= 2 and len(begun) >= 2 and len(tried) == 8

        async def answered() -> bool:
            return all([(await s.run(run_id)).answer == "Done." for run_id in started])

        await s.until(all_tried)
        assert claimed == 2
        released.set()
        await s.until(answered)
    assert len(begun) == 8
    assert max(at_once) == 2


@pytest.mark.parametrize("paused", [None, "flood", "another"])
async def test_a_look_reads_no_more_than_it_finds(
    stage: Callable[..., Awaitable[Stage]], owner: psycopg.Connection[Any], paused: str | None
) -> None:
    """However many calls are ready, and whatever is paused, a look does not read the runs of all of them."""
    s = await stage()
    await calls_of(s, "flood", 3000)
    owner.execute("ANALYZE signoff.tool_call; ANALYZE signoff.agent_run")
    if paused is not None:
        await pause.pause(s.db, paused, by="test")
    after = {lane: [datetime.min.replace(tzinfo=UTC)] for lane in Lane}
    async with s.db.snapshot() as connection:
        found = await due_work.find(connection, ["flood"], after)
        [read] = await fetch(connection, RUNS_READ)
    assert len(found) == (0 if paused == "flood" else 100)
    assert read.rows < 1000  # of 3,000; the planner reads some as well


RUNS_READ = text("""
SELECT seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_xact_user_tables WHERE relname = 'agent_run'
""")


async def test_a_look_reads_one_notice_of_each_target(
    stage: Callable[..., Awaitable[Stage]], owner: psycopg.Connection[Any]
) -> None:
    """However many notices are due, a look reads the earliest of each webhook; one with none due is left out."""
    s = await stage()
    await start_run(s.db)
    owner.execute("SET search_path = signoff")
    owner.execute(NOTICES)
    owner.execute("ANALYZE notice")
    after = {lane: [datetime.min.replace(tzinfo=UTC)] for lane in Lane}
    async with s.db.snapshot() as connection:
        found = await due_work.find(connection, ["nobody"], after)
        [read] = await fetch(connection, NOTICES_READ)
    due = owner.execute("SELECT id::text FROM webhook WHERE name LIKE 'due%' ORDER BY 1").fetchall()
    assert sorted(str(each.wakeup.key) for each in found) == [key for (key,) in due]
    assert len(due) == 2
    assert read.rows < 100  # of 4,001


NOTICES = """
INSERT INTO webhook (id, name, url, secret, events, created_by)
SELECT gen_random_uuid(), name, 'https://example.com/', 's', '["run.finished"]', 'test'
FROM unnest(ARRAY['due 1', 'due 2', 'later', 'nothing']) AS name;
INSERT INTO notice (id, kind, webhook_id, event, run_id, next_at)
SELECT gen_random_uuid(), 'webhook', w.id, 'run.finished', r.id,
       now() + CASE w.name WHEN 'later' THEN interval '1 hour' ELSE interval '-1 hour' END
FROM webhook AS w, agent_run AS r, generate_series(1, CASE w.name WHEN 'due 1' THEN 4000 ELSE 1 END)
WHERE w.name <> 'nothing';
"""
NOTICES_READ = text("""
SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) AS rows FROM pg_stat_xact_user_tables WHERE relname = 'notice'
""")


async def test_only_work_of_agents_served_here_is_found(stage: Callable[..., Awaitable[Stage]]) -> None:
    """What belongs to agents that others serve is left to them."""
    s = await stage()
    await calls_of(s, "theirs", 3)
    await start_run(s.db, "theirs")
    assert await Look(s.db, lambda: ["ours"]).find() == []


async def test_a_run_that_rests_is_found_when_it_is_due(stage: Callable[..., Awaitable[Stage]]) -> None:
    """A run whose model could not be asked is found when its pause is over, and not before."""
    s = await stage()
    run_id = await start_run(s.db)
    look = Look(s.db, lambda: ["refunds"])
    await s.sql("UPDATE agent_run SET look_at = clock_timestamp() + interval '1 hour'")
    assert await look.find() == []
    await s.sql("UPDATE agent_run SET look_at = clock_timestamp()")
    assert await look.find() == [Wakeup.run(run_id, "refunds")]


async def test_an_executor_takes_only_what_it_serves(
    stage: Callable[..., Awaitable[Stage]], run: Run, no_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others get what belongs to no agent of it, and look once at what exceeds its slots; stopped, it takes nothing."""
    s = await stage(AGENT)
    looks: list[str] = []

    async def announce(text: str) -> None:
        looks.append(text)

    monkeypatch.setattr(s.db.wakeups, "_announce", announce)
    gate = asyncio.Event()

    async def wait(_services: Services, _key: UUID) -> None:
        await gate.wait()

    monkeypatch.setattr(module, "advance_call", wait)
    executor = await run(s.services, concurrency=1)
    calls = [Wakeup.call(UUID(int=n), "refunds") for n in range(3)]
    theirs, channel = Wakeup.call(UUID(int=9), "theirs"), Wakeup.channel("C0")
    assert executor.take([calls[0], theirs, channel]) == [theirs, channel]
    assert executor.calls.busy
    assert executor.take(calls[1:2]) == []
    assert executor.take(calls[2:]) == []
    await s.db.wakeups.finish()
    assert looks == [""]
    gate.set()
    await executor.stop()
    assert executor.calls.reserve(1) == 0
    assert not executor.alive


async def test_a_run_whose_agent_no_process_serves_is_told_of(
    stage: Callable[..., Awaitable[Stage]], run: Run
) -> None:
    """Other processes have a minute to serve it; then its thread says why it does not continue."""
    on = await stage(AGENT)
    fresh, old = await start_run(on.db, "unknown"), await start_run(on.db, "unknown")
    await on.sql(
        "UPDATE agent_run SET updated_at = clock_timestamp() - interval '61 seconds' WHERE id = :id", id=old
    )
    await run(on.services)

    async def is_reported() -> bool:
        return bool(await on.sql("SELECT 1 FROM delivery WHERE body ->> 'line' = 'retrying'"))

    await on.until(is_reported)
    ((error,),) = await on.sql("SELECT body ->> 'text' FROM delivery WHERE body ->> 'line' = 'retrying'")
    assert error == "no agent named 'unknown' is loaded (SIGNOFF_AGENTS)"
    failures = dict(await on.sql("SELECT id, model_failures FROM agent_run"))
    assert failures == {fresh: 0, old: 1}


async def test_work_begins_within_five_seconds_of_the_return_of_the_database(
    stage: Callable[..., Awaitable[Stage]], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage of any length, looks continue at the same pace, and the first that is answered finds the work."""
    pauses: list[float] = []

    class FlyingTime:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        def timeout(self, seconds: float) -> asyncio.Timeout:
            pauses.append(seconds)
            return asyncio.timeout(0)

    on = await stage(AGENT, policy=FREELY)
    executor = await run(on.services)
    there, away = executor._look, Database("postgresql://nobody@127.0.0.1:1/nowhere")
    monkeypatch.setattr(module, "asyncio", FlyingTime())
    monkeypatch.setattr(module, "SPACING", 0)
    executor._look = Look(away, executor._agents)
    await calls_of(on, "refunds", 1)
    began = len(pauses)
    while len(pauses) < began + 30:  # noqa: ASYNC110 - it says so nowhere
        await asyncio.sleep(0)
    assert max(pauses[began:]) + module.SPACING + work_queue.RESTS.first <= 5
    looks: list[int] = []

    class Counted(Look):
        async def find(self) -> list[Wakeup]:
            found = await super().find()
            looks.append(len(found))
            return found

    executor._look = Counted(on.db, there._agents)
    while not looks:  # noqa: ASYNC110 - it says so nowhere
        await asyncio.sleep(0)
    assert looks[0] == 1


async def test_a_service_stops_while_no_result_can_be_written(
    stage: Callable[..., Awaitable[Stage]],
    run: Run,
    owner: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits for the database no longer than its drain time; the result that it leaves is logged, and in doubt."""
    returned = Event()

    @tool
    def note(text: str) -> str:
        """Note it."""
        returned.set()
        return "noted"

    on = await stage(Agent("data", "You note.", [note]), policy=FREELY)
    on.model.script(proposing(("note", {"text": "hello"})))
    owner.execute("SET search_path = signoff")
    owner.execute(_NO_RESULTS)
    monkeypatch.setattr(shutdown, "CANCEL_SECONDS", 0.1)
    executor = await run(on.services)
    executor._drain_seconds = 0.1
    await on.start("data", "note hello")
    await asyncio.to_thread(returned.wait)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            await executor.stop()
    assert await on.sql("SELECT status::text FROM execution") == [("claimed",)]
    assert [each["status"] for each in logs if each["action"] == "execution.left"] == ["succeeded"]


async def test_nothing_that_stops_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not even end when it is cut off is left, and named in the log."""
    monkeypatch.setattr(shutdown, "CANCEL_SECONDS", 0.0)
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    task = asyncio.create_task(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    with capture_logs() as logs:
        await shutdown.end_tasks([task], 0)
    assert [each["tasks"] for each in logs] == [["stubborn"]]
    let_go.set()
    await task


_NO_RESULTS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = signoff AS $$ BEGIN
    RAISE EXCEPTION 'not now' USING ERRCODE = 'read_only_sql_transaction';
END $$;
CREATE TRIGGER refuse BEFORE UPDATE OF status ON execution FOR EACH ROW EXECUTE FUNCTION refuse();
"""
