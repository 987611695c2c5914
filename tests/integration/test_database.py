"""Transactions that end in time and never claim more than they know; pools that heal."""
# ruff: noqa: PT012 - what is under test are blocks, so their bodies have to stand inside `raises`

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import exc, text
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database import address, embedded_server, liveness, migrations
from agent.database import pools as module
from agent.database.driver import driver_of
from agent.database.pools import (
    DECISION_POOL_WAIT,
    IDLE,
    BudgetExceeded,
    Database,
    DatabaseError,
    DatabaseUnavailable,
    DatabaseUnusable,
    OutcomeUnknown,
)
from agent.database.transaction import DECISION_BUDGET, Connection, Transaction, query
from tests.patience import promised

pytestmark = pytest.mark.budgets


SLACK = 0.2  # seconds that an idle machine may add to a budget
INSERT = text("INSERT INTO outlet (team_id, channel_id) VALUES ('T1', :channel)")
NUMBER = text("SELECT CAST(:number AS int) AS number")
SERVER = text("SELECT pg_backend_pid()")
Owner = psycopg.Connection[Any]


async def channels(database: Database) -> list[str]:
    async with database.connection() as connection:
        return list((await connection.scalars(text("SELECT channel_id FROM outlet ORDER BY 1"))).all())


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < promised(seconds + SLACK)


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture
async def ready(database: Database) -> Database:
    """A database whose pools have connections, as in a service that has been running for a while."""
    await database.open()
    return database


async def test_commit_and_rollback(database: Database) -> None:
    """What a transaction wrote is there after it, and gone when its block raised."""
    async with database.transaction() as tx:
        await tx.execute(INSERT, {"channel": "kept"})
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as tx:
            await tx.execute(INSERT, {"channel": "lost"})
            raise ZeroDivisionError
    assert await channels(database) == ["kept"]


async def test_how_a_session_begins(database: Database) -> None:
    """Every way in has our schema alone, the service's role and UTC, and `conninfo` gives other drivers the same."""
    question = "SELECT current_schemas(false)::text, current_user, current_setting('TimeZone')"
    for way in (database.transaction, database.decision_transaction, database.connection):
        async with way() as connection:
            row = (await connection.execute(text(question))).one()
        assert tuple(row) == ("{signoff}", "signoff_app", "UTC")
    async with await psycopg.AsyncConnection.connect(database.conninfo("jobs")) as raw:
        found = await (await raw.execute(f"{question}, current_setting('application_name')")).fetchone()
    assert found == ("{signoff}", "signoff_app", "UTC", "jobs")


async def test_reads_cannot_write(database: Database) -> None:
    """A write through `connection()` is refused by the server."""
    with pytest.raises(exc.InternalError, match="read-only"):
        async with database.connection() as connection:
            await connection.execute(INSERT, {"channel": "C1"})


async def test_a_snapshot_does_not_change(database: Database) -> None:
    """Every statement of `snapshot()` sees what its first one saw and writes nothing; other reads stay as they are."""
    count = text("SELECT count(*) FROM outlet")

    async def seen_beside_a_write(connection: AsyncConnection, channel: str) -> list[int | None]:
        before = await connection.scalar(count)
        async with database.transaction() as tx:
            await tx.execute(INSERT, {"channel": channel})
        return [before, await connection.scalar(count)]

    for _ in range(2):
        async with database.snapshot() as connection:
            assert await seen_beside_a_write(connection, "C1") == [0, 0]
            with pytest.raises(exc.InternalError, match="read-only"):
                await connection.execute(INSERT, {"channel": "C2"})
        async with database.connection() as connection:
            assert await seen_beside_a_write(connection, "C3") == [1, 2]
        async with database.transaction() as tx:
            await tx.execute(text("DELETE FROM outlet"))


async def test_statements_get_prepared(database: Database) -> None:
    """A statement that is used again and again is prepared on the server."""
    for number in range(8):
        async with database.transaction() as tx:
            await tx.execute(INSERT, {"channel": str(number)})
    async with database.transaction() as tx:
        prepared = await tx.connection.scalars(text("SELECT statement FROM pg_prepared_statements"))
        assert any("INSERT INTO outlet" in statement for statement in prepared)


# ---------------------------------------------------------------- the budget of a click
async def behind_a_row_lock(connection: AsyncConnection, owner: Owner) -> None:
    await connection.execute(text("SELECT 1 FROM outlet WHERE channel_id = 'locked' FOR UPDATE"))


async def asleep(connection: AsyncConnection, owner: Owner) -> None:
    await connection.execute(text("SELECT pg_sleep(30)"))


async def in_many_statements(connection: AsyncConnection, owner: Owner) -> None:
    while True:
        await connection.execute(text("SELECT pg_sleep(0.3)"))


async def busy_elsewhere(connection: AsyncConnection, owner: Owner) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("stuck", [behind_a_row_lock, asleep, in_many_statements, busy_elsewhere])
async def test_budget(ready: Database, owner: Owner, stuck: Callable[..., Awaitable[None]]) -> None:
    """A transaction that is stuck ends within its budget with an error, and has written nothing, now or later."""
    owner.execute("INSERT INTO outlet (team_id, channel_id) VALUES ('T1', 'locked')")
    with psycopg.connect(ready.conninfo()) as rival:
        rival.execute("SELECT 1 FROM outlet FOR UPDATE")
        with within(DECISION_BUDGET), pytest.raises(BudgetExceeded, match="nothing was written"):
            async with ready.decision_transaction() as tx:
                await tx.execute(INSERT, {"channel": "C1"})
                await stuck(tx, owner)
    await gone(owner)
    assert await channels(ready) == ["locked"]
    assert ready._deciding.pool.checkedout() == 0  # type: ignore[attr-defined]
    await write(ready)


async def gone(owner: Owner) -> None:
    """Waits until the server has noticed that we hung up."""
    query = """SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"""

    async def nobody() -> bool:
        return bool(owner.execute(query).fetchone() == (0,))

    await eventually(nobody)


async def write(database: Database) -> None:
    async with database.decision_transaction() as tx:
        await tx.execute(INSERT, {"channel": f"after {time.monotonic()}"})


async def test_budget_with_a_stopped_backend(ready: Database, owner: Owner) -> None:
    """A server process that has stopped dead holds nobody up: neither the statement nor the rollback waits for it."""
    async with AsyncExitStack() as stack:
        with within(DECISION_BUDGET), pytest.raises(BudgetExceeded):
            async with ready.decision_transaction() as tx:
                await tx.execute(INSERT, {"channel": "C1"})
                pid = await tx.connection.scalar(text("SELECT pg_backend_pid()"))
                stack.callback(os.kill, pid, signal.SIGCONT)
                os.kill(pid, signal.SIGSTOP)
                await tx.execute(text("SELECT 1"))
        await write(ready)
    await gone(owner)
    assert "C1" not in await channels(ready)


async def test_own_error_with_a_stopped_backend(ready: Database) -> None:
    """A refusal raised in the block reaches the caller in time even when the rollback gets no answer."""
    async with AsyncExitStack() as stack:
        with within(DECISION_BUDGET), pytest.raises(ZeroDivisionError):
            async with ready.decision_transaction() as tx:
                pid = await tx.connection.scalar(text("SELECT pg_backend_pid()"))
                stack.callback(os.kill, pid, signal.SIGCONT)
                os.kill(pid, signal.SIGSTOP)
                raise ZeroDivisionError
    await write(ready)


async def test_own_timeout(ready: Database) -> None:
    """A timeout of the block's own is its own affair, and not called a slow database."""
    with pytest.raises(TimeoutError):
        async with ready.decision_transaction():
            raise TimeoutError


def at_commit(owner: Owner, body: str) -> None:
    """Has the server do something in the COMMIT of every transaction that writes an outlet."""
    owner.execute(f"""
        CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
            AS 'BEGIN {body}; RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON outlet DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION at_commit()
    """)


async def test_stuck_in_commit_is_unknown(ready: Database, owner: Owner) -> None:
    """When COMMIT gets no answer in time the caller learns that the outcome is unknown: neither success nor failure."""
    at_commit(owner, "PERFORM pg_sleep(30)")
    with within(DECISION_BUDGET), pytest.raises(OutcomeUnknown):
        await write(ready)


async def test_cut_during_commit_is_unknown(ready: Database, owner: Owner) -> None:
    """The same holds for any transaction whose connection breaks while COMMIT is on its way."""
    at_commit(owner, "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(30)")
    with pytest.raises(OutcomeUnknown):
        async with ready.transaction() as tx:
            await tx.execute(INSERT, {"channel": "C1"})


async def test_server_lets_go_by_itself(ready: Database, owner: Owner) -> None:
    """A stopped process keeps no locks: the server ends its transactions, those of clicks within their budget."""
    bounds = {
        "idle_in_transaction_session_timeout": ("1200ms", f"{IDLE}s"),
        "statement_timeout": ("1200ms", "0"),
    }
    if owner.info.server_version >= 170_000:
        bounds["transaction_timeout"] = ("1200ms", "0")
    for name, (of_clicks, of_workers) in bounds.items():
        for way, expected in ((ready.decision_transaction, of_clicks), (ready.transaction, of_workers)):
            async with way() as connection:
                assert (await connection.execute(text(f"SHOW {name}"))).scalar_one() == expected


async def test_server_ends_a_pipelined_transaction_that_stops(ready: Database, owner: Owner) -> None:
    """What several statements in one round trip have locked is free again soon after their process stops."""
    soon = text("SET LOCAL idle_in_transaction_session_timeout = 100")
    with pytest.raises(DatabaseUnavailable):
        async with ready.transaction() as tx:
            _ = await query(tx, soon, INSERT, channel="C1")
            backend = backend_of(tx)

            async def is_gone() -> bool:
                found = owner.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [backend])
                return found.fetchone() is None

            await eventually(is_gone)
            await tx.execute(INSERT, {"channel": "C2"})
    assert await channels(ready) == []


async def test_a_pipeline_larger_than_the_sockets_is_sent_whole(ready: Database) -> None:
    """Statements of many megabytes reach the server, whatever its socket takes at once."""
    large = text("SELECT length(CAST(:large AS text)) AS length")
    async with asyncio.timeout(60), ready.transaction() as tx:
        [one], [two] = await query(tx, large, large, large="x" * 20_000_000)
        assert (one.length, two.length) == (20_000_000, 20_000_000)


async def test_pool_exhausted(ready: Database) -> None:
    """When all connections for clicks are taken, the next click fails within its 0.4 s."""
    async with AsyncExitStack() as stack:
        for _ in range(ready._deciding.pool.size()):  # type: ignore[attr-defined]
            _ = await stack.enter_async_context(ready.decision_transaction())
        with within(DECISION_POOL_WAIT), pytest.raises(BudgetExceeded, match="no free connection"):
            await write(ready)
    await write(ready)


async def test_workers_do_not_hold_up_clicks(ready: Database) -> None:
    """With every connection of the workers in use a click still gets through."""
    async with AsyncExitStack() as stack:
        for _ in range(ready._writing.pool.size()):  # type: ignore[attr-defined]
            _ = await stack.enter_async_context(ready.transaction())
        await write(ready)


# ---------------------------------------------------------------- what the end of a transaction means
async def test_error_passed_over(database: Database) -> None:
    """A block that swallows a statement's error is not reported as written: PostgreSQL has rolled it back."""
    with pytest.raises(DatabaseError, match="ignored"):
        async with database.transaction() as tx:
            await tx.execute(INSERT, {"channel": "C1"})
            with pytest.raises(exc.ProgrammingError):
                await tx.execute(text("SELECT no_such_column"))
    assert await channels(database) == []


async def test_refused_at_commit(ready: Database, owner: Owner) -> None:
    """A constraint that fails at COMMIT speaks for itself: the server has answered, so nothing is unknown."""
    at_commit(owner, "RAISE check_violation")
    for way in (ready.transaction, ready.decision_transaction):
        with pytest.raises(psycopg.errors.CheckViolation):
            async with way() as connection:
                await connection.execute(INSERT, {"channel": "C1"})
    assert await channels(ready) == []


def backend_of(connection: Connection) -> int:
    """The process of the server that serves this connection."""
    below = connection.connection if isinstance(connection, Transaction) else connection
    return driver_of(below).info.backend_pid


@pytest.mark.parametrize("through", ["SQLAlchemy", "the driver"])
@pytest.mark.parametrize("way", ["transaction", "decision_transaction", "connection", "counting"])
async def test_terminated_backend(
    ready: Database, owner: Owner, caplog: pytest.LogCaptureFixture, way: str, through: str
) -> None:
    """A connection cut by the server is reported as unavailable, once and in one line, and the next one works."""
    with pytest.raises(DatabaseUnavailable):
        async with getattr(ready, way)() as connection:
            asking = connection.execute if through == "SQLAlchemy" else partial(query, connection)
            await asking(text("SELECT 1"))
            owner.execute("SELECT pg_terminate_backend(%s, 5000)", [backend_of(connection)])
            await asking(text("SELECT 1"))
    async with getattr(ready, way)() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    assert not [each for each in caplog.records if each.name.startswith("sqlalchemy")]


@pytest.mark.parametrize("way", ["transaction", "decision_transaction", "connection", "counting"])
async def test_connections_that_are_dead_when_they_are_made(
    ready: Database, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A server that ends sessions as soon as they begin is reported as unavailable, and keeps no place in a pool."""
    with monkeypatch.context() as patch, pytest.raises(DatabaseUnavailable):
        patch.setattr(liveness, "_has_something_to_read", lambda _: True)
        async with getattr(ready, way)():
            pass
    assert [pool.in_use for pool in ready.pools()] == [0, 0, 0]
    async with getattr(ready, way)() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1


async def test_cancelled(ready: Database, owner: Owner) -> None:
    """A cancelled task gives its connection back, rolled back."""
    begun = asyncio.Event()

    async def work() -> None:
        async with ready.transaction() as tx:
            await tx.execute(INSERT, {"channel": "C1"})
            begun.set()
            await tx.execute(text("SELECT pg_sleep(30)"))

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ready._writing.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert await channels(ready) == []


async def test_whoever_comes_after_a_cancelled_pipeline_gets_their_own_answers(database: Database) -> None:
    """However many reads and transactions are cancelled at any moment: no answer of theirs reaches anybody else."""
    chance = random.Random(1)

    async def ask(number: int) -> set[int]:
        either = database.connection if number % 2 else database.transaction
        async with either() as connection:
            first, second = await query(connection, NUMBER, NUMBER, number=number)
            third = await connection.execute(NUMBER, {"number": number})
            return {first[0].number, second[0].number, third.scalar_one()}

    for batch in range(0, 240, 12):
        asked = {number: asyncio.create_task(ask(number)) for number in range(batch, batch + 12)}
        for task in chance.sample(list(asked.values()), 8):
            asyncio.get_running_loop().call_later(chance.choice((0, chance.random() / 200)), task.cancel)
        answers = await asyncio.gather(*asked.values(), return_exceptions=True)
        for number, answer in zip(asked, answers, strict=True):
            assert answer == {number} or isinstance(answer, asyncio.CancelledError)


# ---------------------------------------------------------------- a server that comes and goes
@pytest.fixture
async def own_server(postgres: Any) -> AsyncIterator[tuple[Path, embedded_server.EmbeddedServer]]:
    """A server of the test's own, to be stopped and started."""
    data = postgres.server.data_dir.with_name("restarted")
    server = embedded_server.start(data, durable=False)
    yield data, server
    server.stop()


async def test_restart_of_the_server(own_server: tuple[Path, embedded_server.EmbeddedServer]) -> None:
    """While the server is down errors say so; afterwards the pools work at once, without a lost call."""
    data, server = own_server
    migrations.upgrade(server.url)
    async with Database(server.url) as database:
        await database.open()
        await write(database)
        server.stop()
        for way in (database.transaction, database.decision_transaction, database.connection):
            with pytest.raises(DatabaseUnavailable, match="cannot reach the database postgres@"):
                async with way():
                    pass
        back = embedded_server.start(data, durable=False)
        try:
            assert len(await channels(database)) == 1
            await write(database)
            async with database.transaction() as tx:
                await tx.execute(INSERT, {"channel": "C1"})

            # Restarted between two uses, without anybody noticing in between.
            back.stop()
            back = embedded_server.start(data, durable=False)
            await asyncio.gather(*(write(database) for _ in range(5)))
            assert len(await channels(database)) == 8
        finally:
            back.stop()


async def test_too_old_a_server(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server older than we need is refused in one line that names both versions."""
    monkeypatch.setattr(address, "OLDEST_SERVER", 99)
    async with Database(database_url) as database:
        with pytest.raises(DatabaseUnusable, match=r"is PostgreSQL 1\d; Signoff needs 99 or newer"):
            await database.open()


async def test_nobody_there(tmp_path: Path) -> None:
    """An address where nothing listens is reported in one line that says where, without the password."""
    async with Database(f"postgresql://someone:s3cret@/shop?host={tmp_path}") as database:
        with pytest.raises(DatabaseUnavailable) as caught:
            await database.open()
    message = str(caught.value)
    assert f"someone@{tmp_path}:5432/shop" in message
    assert "s3cret" not in message
    assert "\n" not in message


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
async def test_spellings_of_an_address(database_url: str, scheme: str) -> None:
    """The usual spellings of a PostgreSQL address mean the same."""
    async with Database(database_url.replace("postgresql+psycopg", scheme)) as database:
        await database.open()


def test_bad_address() -> None:
    """What is not a PostgreSQL address is refused before anything is tried, and not repeated."""
    with pytest.raises(DatabaseUnusable) as caught:
        Database("mysql://root:s3cret@db/shop")
    assert "s3cret" not in str(caught.value)
    assert module.__all__ == sorted(module.__all__)


@pytest.mark.parametrize("kind", ["connection", "transaction", "decision_transaction", "snapshot"])
async def test_whoever_is_cancelled_returns_the_connection(
    database: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver may let other tasks run at any of its calls: a user who ends there keeps no connection, and one who
    ends while returning it does not close it.
    """
    servers: list[int] = []
    last, yields = 0, 1

    async def use() -> None:
        async with getattr(database, kind)() as found:
            servers.append((await found.execute(SERVER)).scalar_one())

    async def ending(_seconds: float) -> None:
        nonlocal yields
        yields += 1
        if yields == last:
            task.cancel()
        await asyncio.sleep(0)

    await use()
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", -1.0)  # at each call
    monkeypatch.setattr(psycopg.waiting, "sleep", ending)
    while yields > last:
        last, yields, known = last + 1, 0, len(servers)
        task = asyncio.create_task(use())
        await asyncio.gather(task, return_exceptions=True)
        await liveness.wait_for_returns()
        assert [each.in_use for each in database.pools()] == [0, 0, 0]
        if kind in ("connection", "snapshot") and len(servers) > known:
            await use()
            assert len(set(servers[known:])) == 1
