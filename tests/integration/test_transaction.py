"""One transaction: what it collects is sent by itself, and what it announces has been committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.database.errors import OutcomeUnknown
from agent.database.pools import Database
from agent.database.transaction import Transaction, fetch
from agent.domain.request import ExecutionStatus
from agent.usecases.calls import Outcome
from tests.commit_cutter import CommitCutter, Cut
from tests.integration import alone
from tests.integration.asking import ask, claim_approved, column
from tests.wire_counter import WireCounter

Owner = psycopg.Connection[Any]
INSERT = text("INSERT INTO pause (scope, by, reason) VALUES (:scope, 'test', NULL)")
SCOPES = "SELECT scope FROM pause"


async def test_what_is_collected_is_sent_by_itself(database: Database) -> None:
    """A block that collects a write has it written when the block ends; there is nothing to call and forget."""
    async with database.transaction() as tx:
        tx.add(INSERT, scope="*")
        assert await column(database, SCOPES) == []
    assert await column(database, SCOPES) == ["*"]


async def test_work_begins_before_what_is_said_of_the_commit(database: Database) -> None:
    """A task that is made after COMMIT takes its first step before logs and metrics of the facts."""
    order: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        order.append("begun")

    async with database.transaction() as tx:
        tx.after_commit(lambda: order.append("said"))
        tx.begin_after_commit(lambda: tasks.append(asyncio.create_task(work())))
        tx.add(INSERT, scope="*")
        assert not tasks
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    assert order == ["begun", "said"]


async def _lose(database: Database) -> None:
    async with database.transaction() as tx:
        tx.add(INSERT, scope="lost")
        raise ZeroDivisionError


async def _lose_inside(tx: Transaction) -> None:
    async with tx.savepoint():
        tx.add(INSERT, scope="inside")
        await tx.flush()
        raise ZeroDivisionError


async def test_what_is_collected_is_dropped_with_its_block(database: Database) -> None:
    """A block that raises, or a savepoint that does, writes nothing of what it collected."""
    with pytest.raises(ZeroDivisionError):
        await _lose(database)
    async with database.transaction() as tx:
        tx.add(INSERT, scope="before")
        with pytest.raises(ZeroDivisionError):
            await _lose_inside(tx)
        tx.add(INSERT, scope="behind")
    assert sorted(await column(database, SCOPES)) == ["before", "behind"]


async def test_a_value_that_json_cannot_hold_is_refused(database: Database) -> None:
    """What has no text that PostgreSQL would read back as the same value is an error, not its `repr`."""
    with pytest.raises(TypeError, match="set"):
        async with database.transaction() as tx:
            tx.add_rows(text("SELECT :rows"), [{"who": {"U0ADA"}}])


@pytest.fixture
async def counter(database_url: str, tmp_path: Path) -> AsyncIterator[WireCounter]:
    """A way to the test's database on which statements and round trips are counted."""
    async with WireCounter(database_url, tmp_path).running() as opened:
        yield opened


@pytest.mark.parametrize("way", ["transaction", "decision_transaction"])
async def test_a_transaction_waits_twice(counter: WireCounter, way: str) -> None:
    """BEGIN travels with what is read first, COMMIT with what is written last; one that only writes waits once."""
    async with Database(counter.url) as database:
        await database.open()
        counter.reset()
        async with getattr(database, way)() as tx:
            await fetch(tx, text("SELECT 1"))
            tx.add(INSERT, scope="a")
            tx.add(INSERT, scope="b")
        assert [each.split()[0] for each in counter.statements] == [
            "BEGIN",
            "SELECT",
            "INSERT",
            "INSERT",
            "COMMIT",
        ]
        assert counter.round_trips == 2
        counter.reset()
        async with getattr(database, way)() as tx:
            tx.add(INSERT, scope="c")
        assert counter.round_trips == 1
        counter.reset()
        async with getattr(database, way)():
            pass
        assert counter.statements == []
        assert sorted(await column(database, SCOPES)) == ["a", "b", "c"]


ROWS = text("""
INSERT INTO pause (scope, by) SELECT scope, 'test' FROM json_to_recordset(:rows) AS t (scope text)
""")


async def test_rows_of_members_travel_in_one_statement(counter: WireCounter) -> None:
    """A wave of three costs as many statements as one of its members."""
    async with Database(counter.url) as database:
        await database.open()
        counter.reset()
        async with database.transaction() as tx:
            for scope in "abc":
                tx.next_member()
                tx.add_rows(ROWS, [{"scope": scope}])
        assert [each.split()[0] for each in counter.statements] == ["BEGIN", "INSERT", "COMMIT"]
        assert await column(database, "SELECT scope FROM pause ORDER BY 1") == ["a", "b", "c"]


async def _write(database: Database, announced: list[str], *scopes: str) -> None:
    async with database.transaction() as tx:
        tx.after_commit(partial(announced.append, "committed"))
        for scope in scopes:
            tx.add(INSERT, scope=scope)


async def test_an_error_on_the_way_to_commit_writes_nothing(database: Database) -> None:
    """COMMIT is behind a statement that fails, and the server does not get to it; nothing is announced."""
    announced: list[str] = []
    with pytest.raises(psycopg.errors.UniqueViolation):
        await _write(database, announced, "a", "a", "b")
    assert await column(database, SCOPES) == []
    assert announced == []


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_commit_that_is_not_answered_is_unknown(
    database: Database, database_url: str, tmp_path: Path, cut: Cut
) -> None:
    """A connection lost behind the last writes says neither that they are written nor that they are not."""
    announced: list[str] = []
    async with CommitCutter(database_url, tmp_path).running() as cutter, Database(cutter.url) as cut_off:
        cutter.cut_next(cut)
        with pytest.raises(OutcomeUnknown):
            await _write(cut_off, announced, "a")
    assert await column(database, SCOPES) == (["a"] if cut == "after" else [])
    assert announced == []


FACTS = {"run.started", "request.opened", "request.approved", "execution.started", "execution.succeeded"}


async def test_a_driver_that_gives_up_at_commit_knows_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A back end that ends amid a COMMIT may leave a connection that looks open: that is no answer of the server."""
    leave = psycopg.AsyncPipeline.__aexit__

    async def give_up(pipeline: psycopg.AsyncPipeline, *error: Any) -> None:
        await leave(pipeline, *error)
        raise psycopg.OperationalError("cannot exit pipeline mode while busy")

    monkeypatch.setattr(psycopg.AsyncPipeline, "__aexit__", give_up)
    with pytest.raises(OutcomeUnknown):
        await _write(database, [], "*")
    monkeypatch.undo()
    assert await column(database, SCOPES) == ["*"]


async def _whole_way(database: Database) -> None:
    """A run, its request, the vote that decides, the claim and the report."""
    asked = await ask(database)
    claim = await claim_approved(database, asked, worker="w1")
    await alone.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))


async def test_facts_are_logged(database: Database) -> None:
    """Each fact of a run's way is logged under its own action."""
    with capture_logs() as logs:
        await _whole_way(database)
    assert {each["action"] for each in logs if "action" in each} >= FACTS


@pytest.mark.parametrize("table", ["agent_run", "approval_request", "decision", "execution"])
async def test_nothing_is_announced_that_did_not_commit(database: Database, owner: Owner, table: str) -> None:
    """When COMMIT fails, no log line says that the run, the request, the decision or the attempt is there."""
    owner.execute(f"""
        SET search_path = signoff;
        CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
            AS 'BEGIN RAISE EXCEPTION ''refused at COMMIT''; END';
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION at_commit()
    """)
    with capture_logs() as logs, pytest.raises(psycopg.Error, match="refused at COMMIT"):
        await _whole_way(database)
    announced = [each["action"] for each in logs if each.get("action") in FACTS]
    order = {"agent_run": 0, "approval_request": 1, "decision": 2, "execution": 3}
    assert announced == ["run.started", "request.opened", "request.approved"][: order[table]]
    assert await column(database, f"SELECT count(*) FROM {table}") == [0]
