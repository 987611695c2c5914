"""Wake-ups: handed on after COMMIT, taken in the process or announced to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.database.address import Address
from agent.database.pools import Database, OutcomeUnknown
from agent.database.wakeups import Wakeup, Wakeups
from tests.commit_cutter import CommitCutter

RUN = Wakeup.run(uuid4(), "refunds")
CALL = Wakeup.call(uuid4(), "payments")
INSERT = text("INSERT INTO pause (scope, by, reason) VALUES ('*', 'test', NULL)")


class Listener:
    """Takes the wake-ups of one agent."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.taken: list[Wakeup] = []

    def take(self, wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        self.taken += [each for each in wakeups if each.agent == self.agent]
        return [each for each in wakeups if each.agent != self.agent]


@pytest.fixture
async def announcing(database_url: str) -> AsyncIterator[Database]:
    """A process that announces what it does not take."""
    async with Database(database_url, announces=True) as opened:
        yield opened


@pytest.fixture
async def heard(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection that receives every notification."""
    conninfo = Address.read(database_url).conninfo()
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute("LISTEN signoff")
        yield connection


async def announcements(heard: psycopg.AsyncConnection[Any]) -> int:
    """How many were sent until now."""
    await heard.execute("SELECT pg_notify('signoff', 'the end')")
    said = []
    async for each in heard.notifies():
        said.append(each.payload)
        if each.payload == "the end":
            break
    return len(said) - 1


async def wake(db: Database, *wakeups: Wakeup, error: type[Exception] | None = None) -> None:
    async with db.transaction() as tx:
        tx.add(INSERT)
        tx.wake(*wakeups)
        if error is not None:
            raise error


async def test_wake_ups_come_after_commit_and_before_the_logs(database: Database) -> None:
    """A transaction hands its wake-ups on once it has committed, each once, before anything is logged about it."""
    order: list[object] = []

    def take(wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        order.extend(wakeups)
        return []

    unlisten = database.wakeups.listen(take)
    async with database.transaction() as tx:
        tx.after_commit(lambda: order.append("logged"))
        tx.wake(RUN, CALL)
        tx.wake(RUN)
        assert order == []
    unlisten()
    assert order == [RUN, CALL, "logged"]


async def test_what_was_rolled_back_wakes_nobody(database: Database) -> None:
    """A transaction that raises hands no wake-up on."""
    listener = Listener("refunds")
    unlisten = database.wakeups.listen(listener.take)
    with pytest.raises(ZeroDivisionError):
        await wake(database, RUN, error=ZeroDivisionError)
    unlisten()
    assert listener.taken == []


async def test_what_may_be_written_wakes_who_looks(database_url: str, tmp_path: Path) -> None:
    """When COMMIT is not answered, the wake-ups are delivered anyway."""
    listener = Listener("refunds")
    async with CommitCutter(database_url, tmp_path).running() as cutter, Database(cutter.url) as db:
        db.wakeups.listen(listener.take)
        cutter.cut_next("after")
        with pytest.raises(OutcomeUnknown):
            await wake(db, RUN)
    assert listener.taken == [RUN]


async def test_what_is_taken_here_is_not_announced(
    announcing: Database, heard: psycopg.AsyncConnection[Any]
) -> None:
    """No other process is woken while the listeners of this one take everything; each gets what is left for it."""
    refunds, payments = Listener("refunds"), Listener("payments")
    announcing.wakeups.listen(refunds.take)
    announcing.wakeups.listen(payments.take)
    await wake(announcing, RUN, CALL)
    await announcing.wakeups.finish()
    assert (refunds.taken, payments.taken) == ([RUN], [CALL])
    assert await announcements(heard) == 0


async def test_what_is_not_taken_here_is_announced(
    announcing: Database, heard: psycopg.AsyncConnection[Any]
) -> None:
    """What is left of a transaction's wake-ups costs one announcement, however much it is."""
    announcing.wakeups.listen(Listener("refunds").take)
    await wake(announcing, RUN, CALL, Wakeup.call(uuid4(), "payments"))
    await announcing.wakeups.finish()
    assert await announcements(heard) == 1


async def test_announcements_reach_other_processes(announcing: Database, database: Database) -> None:
    """A listener is woken at the beginning, because it may have missed something, and by each notification."""
    listening = database.announcements()
    await anext(listening)
    await wake(announcing, RUN)
    await anext(listening)
    await listening.aclose()


async def test_topics_of_long_schema_names_are_heard_apart(database_url: str) -> None:
    """What one installation announces reaches its own processes, and none of another with nearly the same name."""
    async with (
        Database(database_url, "s" * 62 + "a") as ours,
        Database(database_url, "s" * 62 + "b") as theirs,
    ):
        listening = ours.announcements("_directory")
        await anext(listening)
        await theirs.announce("_directory", "of others")
        await ours.announce("_directory", "ours")
        assert await anext(listening) == "ours"
        await listening.aclose()


async def test_announcements_are_made_one_at_a_time() -> None:
    """What is left over while an announcement is under way is one more, whatever it is; nobody waits for either."""
    under_way, made = asyncio.Event(), 0

    async def announce(_: str) -> None:
        nonlocal made
        made += 1
        await under_way.wait()

    wakeups = Wakeups(announce)
    for _ in range(5):
        wakeups.send([RUN])
        await asyncio.sleep(0)
    assert made == 1
    under_way.set()
    await wakeups.finish()
    assert made == 2


async def test_what_goes_wrong_with_a_wake_up_is_logged() -> None:
    """A listener that fails, or an announcement, fails no transaction: its facts are committed."""

    async def announce(_: str) -> None:
        raise OSError("gone")

    def fail(_: object) -> Sequence[Wakeup]:
        raise ZeroDivisionError

    wakeups = Wakeups(announce)
    wakeups.listen(fail)
    with capture_logs() as logs:
        wakeups.send([RUN])
        await wakeups.finish()
    assert [line["action"] for line in logs] == ["wakeups.failed", "wakeups.lost"]


async def test_an_announcement_names_the_work(announcing: Database, database: Database) -> None:
    """Whoever can do the work begins at once; what this process takes itself is not named."""
    refunds, payments = Listener("refunds"), Listener("payments")
    approved = Wakeup.call(uuid4(), "payments", first=True, approved=(uuid4(), uuid4()))
    database.wakeups.listen(payments.take)
    announcing.wakeups.listen(refunds.take)
    listening = database.announcements()
    await anext(listening)
    await wake(announcing, RUN, CALL, approved, Wakeup.channel("C1"), Wakeup.notices("mail"))
    text = await anext(listening)
    await listening.aclose()
    rest: list[Wakeup] = []

    def leave(wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        rest.extend(wakeups)
        return ()

    database.wakeups.listen(leave)
    database.wakeups.hear(text)
    assert (refunds.taken, payments.taken) == ([RUN], [CALL, approved])
    assert rest == [Wakeup.channel("C1"), Wakeup.notices("mail")]


async def test_a_process_without_listeners_announces_with_its_commit(
    announcing: Database, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be taken, the announcement needs no connection and no round trip of its own."""
    monkeypatch.setattr(announcing.wakeups, "_begin", None)
    listener = Listener("refunds")
    database.wakeups.listen(listener.take)
    listening = database.announcements()
    await anext(listening)
    await wake(announcing, RUN)
    database.wakeups.hear(await anext(listening))
    await listening.aclose()
    assert listener.taken == [RUN]


async def test_facts_stand_if_their_announcement_fails(
    announcing: Database, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL refuses the NOTIFY that came with a COMMIT: the facts are committed, and the failure is logged."""
    monkeypatch.setattr(announcing, "_channel", lambda _topic: "c" * 64)
    with capture_logs() as logs:
        await wake(announcing, RUN)
    assert [line["action"] for line in logs] == ["wakeups.lost"]
    async with database.connection() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM pause"))).scalar_one() == 1


@pytest.mark.parametrize(
    "said",
    [
        "",
        "nonsense",
        "[" * 7000,
        "{}",
        "[1]",
        "[[]]",
        '[["call"]]',
        '[["call", 7, "a", false, false]]',
        '[["call", "x", "a", false, false]]',
        '[["paint", "x", null, false, false]]',
        f'[["call", "{uuid4()}", "a", true, false, "{uuid4()}"]]',
        f'[["call", "{uuid4()}", "a", true, false, "x", "y"]]',
        f'[["call", "{uuid4()}", "a", true, false, "{uuid4()}", "{uuid4()}", "{uuid4()}"]]',
    ],
)
async def test_what_names_no_work_asks_for_a_look(said: str) -> None:
    """Anybody with the service's login may notify: what cannot be read makes every process look, and no more."""
    wakeups, looks = Wakeups(), list[int]()
    listener = Listener("a")
    wakeups.listen(listener.take)
    wakeups.on_announcement(lambda: looks.append(1))
    wakeups.hear(said)
    assert (looks, listener.taken) == ([1], [])


async def test_too_much_work_to_be_named_asks_for_a_look(announcing: Database, database: Database) -> None:
    """A notification has 8,000 bytes."""
    listening = database.announcements()
    await anext(listening)
    await wake(announcing, *(Wakeup.call(uuid4(), "payments") for _ in range(200)))
    assert await anext(listening) == ""
    await listening.aclose()
