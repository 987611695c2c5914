"""A database that answers and stores nothing: everybody is told why, nothing counts, and it is noticed when it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.database import failure_log, pools
from agent.database.driver import driver_of
from agent.database.embedded_server import EmbeddedServer
from agent.database.errors import DatabaseRefuses, DatabaseUnavailable
from agent.database.pools import Database
from agent.usecases import probe_write
from slackbot.app import Service
from slackbot.cards.values import REASON_BLOCK, REASON_INPUT
from slackbot.service.probe_write import WriteProbe
from tests.conftest import fastest_folder
from tests.integration.asking import column
from tests.integration.crash.refusals import MAY_MOUNT, REFUSALS, own_disk
from tests.integration.crash.test_health import own_server, says  # noqa: F401
from tests.integration.service.conftest import House, a_house, until
from tests.integration.test_every_sweep import metric
from tests.integration.web.conftest import GRACE, POLICY, Program, Street
from tests.integration.web.visiting import PUBLIC, Porch, Visitor, data_agent

WROTE = """
SELECT (SELECT count(*) FROM vote) + (SELECT count(*) FROM approval_request) + (SELECT count(*) FROM agent_run)
"""


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server whose disk may be filled."""
    name = f"signoff-disk-{tmp_path_factory.getbasetemp().name}-{id(object()):x}"
    with own_disk(fastest_folder() / name) as server:
        yield server


@dataclass
class Town:
    """One service, with people at each of its doors."""

    house: House
    service: Service
    program: Program
    reviewer: Program
    visitor: Visitor
    cards: list[dict[str, Any]]

    async def answers(self) -> dict[str, str]:
        """What each door says to something new."""
        slack = self.house.slack
        grace, ada = slack.person("U0GRACE"), slack.person("U0ADA")
        asked = await self.program.ask("new")
        voted = await self.reviewer.decide("r-0")
        page = await self.visitor.send(f"{await self.page_of('r-1')}/approve", {"revision": "1"})
        click = await grace.click(self.cards[2], "signoff:approve")
        told = await slack.wait_for(lambda: click.ephemeral)
        await grace.click(self.cards[3], "signoff:reject")
        sent = await grace.submit(slack.views("U0GRACE")[-1], {f"{REASON_BLOCK}/{REASON_INPUT}": "no"})
        command = await ada.command("/agent", "run data hello", "C0AGENTS")
        assert (asked.status_code, voted.status_code, page.status_code) == (503, 503, 503)
        for answer in (asked, voted):
            assert answer.json()["type"] == "urn:signoff:database-refuses"
            assert int(answer.headers["retry-after"]) >= 1
        return {
            "request": asked.text,
            "vote": voted.text,
            "page": self.visitor.words,
            "click": str(told),
            "form": str(sent.errors),
            "command": str(command.response),
        }

    async def page_of(self, client_id: str) -> str:
        sql = "SELECT id::text FROM approval_request WHERE client_id = :id"
        [found] = await column(self.house.db, sql, id=client_id)
        return f"/inbox/requests/{found}"

    async def wrote(self) -> list[Any]:
        return await self.house.column(WROTE)


async def open_town(server: EmbeddedServer, stack: AsyncExitStack) -> Town:
    house = await stack.enter_async_context(a_house(server.url, "http"))
    service = await house.open([data_agent()], POLICY, SIGNOFF_PUBLIC_URL=PUBLIC)
    site = Street(house, service, f"http://127.0.0.1:{service.port}", house.stack)
    porch = Porch(house, service)
    program, reviewer = await site.program(per_minute=1_000_000), await site.reviewer(GRACE)
    for number in range(4):
        assert (await program.ask(f"r-{number}")).status_code == 201
    cards = [await house.card(number) for number in range(4)]
    visitor = await porch.visitor("U0GRACE")
    stack.push_async_callback(visitor.browser.aclose)
    town = Town(house, service, program, reviewer, visitor, cards)
    assert (await visitor.open(await town.page_of("r-1"))).status_code == 200
    return town


@pytest.mark.parametrize("how", ["read-only", "no rights"])
async def test_every_door_says_why_and_nothing_counts(own_server: EmbeddedServer, how: str) -> None:  # noqa: F811
    """API, page, click, form and command say why, never that it counted; `/readyz` is 503 until it is over."""
    refuse, reason = REFUSALS[how]
    async with AsyncExitStack() as stack:
        town = await open_town(own_server, stack)
        before = await town.wrote()
        with refuse(own_server):
            await says(town.service, 503, database=f"refuses to write: {reason}", ready="False")
            assert await metric(town.service, "signoff_database_writable") == 0
            for door, words in (await town.answers()).items():
                assert f"The database refuses to write: {reason}. Nothing was done." in words, door
                assert "recorded" not in words.replace("Not recorded", ""), door
            assert await town.wrote() == before
        await says(town.service, 200, database="ok")
        assert await metric(town.service, "signoff_database_writable") == 1
        assert await town.wrote() == before
        await town.reviewer.decides("r-0")
        assert (await town.house.slack.person("U0GRACE").click(town.cards[2], "signoff:approve")).acked
        assert await column(town.house.db, "SELECT count(*) FROM vote") == [2]


@pytest.mark.skipif(not MAY_MOUNT, reason="only root can make a disk that is full")
async def test_a_full_disk_is_noticed_before_the_last_page_is_full(disk: EmbeddedServer) -> None:
    """`/readyz` is 503 although a few rows still fit; what is answered with success counts, and nothing else does."""
    refuse, reason = REFUSALS["full disk"]
    async with AsyncExitStack() as stack:
        town = await open_town(disk, stack)
        [before] = await town.house.column("SELECT count(*) FROM approval_request")
        with refuse(disk):
            await says(town.service, 503, database=f"refuses to write: {reason}")
            statuses: list[int] = []
            while statuses[-3:] != [503] * 3:
                answer = await town.program.ask(f"more-{len(statuses)}")
                statuses.append(answer.status_code)
                assert answer.status_code == 201 or reason in answer.json()["detail"]
                assert len(statuses) < 1000
            counted = await town.house.column("SELECT count(*) FROM approval_request")
            assert counted == [before + statuses.count(201)]
            await says(town.service, 503, database=reason)
        await says(town.service, 200, database="ok")
        assert (await town.program.ask("after")).status_code == 201


@pytest.mark.parametrize("how", [how for how in REFUSALS if how != "full disk"])
async def test_a_probe_finds_each_refusal(own_server: EmbeddedServer, how: str) -> None:  # noqa: F811
    """The probe fails while it lasts, whatever the rights that are missing, leaves no row, and succeeds afterwards."""
    refuse, reason = REFUSALS[how]
    async with Database(own_server.url) as db:
        probe = WriteProbe(db)
        await probe.look()
        assert probe.problem is None

        async def says_now(problem: str | None) -> bool:
            await probe.look()
            return probe.problem == problem

        with refuse(own_server):
            await until(partial(says_now, f"refuses to write: {reason}"))
        await until(partial(says_now, None))
        assert await column(db, "SELECT count(*) FROM http_reply") == [0]


TABLES = """
SELECT a.privilege_type || ' ON ' || c.oid::regclass FROM pg_class AS c, aclexplode(c.relacl) AS a
WHERE c.relnamespace = 'signoff'::regnamespace AND c.relkind = 'r' AND c.relname <> 'alembic_version'
  AND a.grantee = 'signoff_app'::regrole
UNION ALL
SELECT a.privilege_type || ' (' || f.attname || ') ON ' || f.attrelid::regclass
FROM pg_attribute AS f, aclexplode(f.attacl) AS a WHERE a.grantee = 'signoff_app'::regrole
ORDER BY 1
"""


async def test_the_probe_looks_at_every_right(database: Database, owner: psycopg.Connection[Any]) -> None:
    """Each right that the migrations give the service on a table is missed when it is gone: a new table is listed."""
    given = [right for (right,) in owner.execute(TABLES)]
    assert len(given) > 100
    for right in given:
        owner.execute(f"REVOKE {right} FROM signoff_app")
        with pytest.raises(DatabaseRefuses):
            await probe_write.run(database)
        owner.execute(f"GRANT {right} TO signoff_app")
    await probe_write.run(database)


# Each with the SQLSTATE that PostgreSQL gives it.
OF_CALLERS = {
    "a limit of an index": (
        "54000",
        """INSERT INTO http_reply (principal, key, fingerprint)
           SELECT 'x', string_agg(gen_random_uuid()::text, ''), sha256('') FROM generate_series(1, 1000)""",
    ),
    "too many arguments": ("54023", f"SELECT concat(1{', 1' * 200})"),
    "a check": ("23514", "INSERT INTO http_reply (principal, key, fingerprint) VALUES ('x', 'k', 'short')"),
    "twice": (
        "23505",
        """INSERT INTO http_reply (principal, key, fingerprint)
           SELECT 'x', 'k', sha256('') FROM generate_series(1, 2)""",
    ),
    "no text": ("23502", "INSERT INTO http_reply (principal) VALUES (NULL)"),
    "too long": ("22001", "INSERT INTO alembic_version VALUES (repeat('x', 1000))"),
    "no number": ("22P02", "SELECT CAST('x' AS int)"),
    "too large": ("22003", "SELECT CAST(3000000000 AS int)"),
    "NUL": ("22021", "SELECT convert_from('\\x00'::bytea, 'UTF8')"),
    "NUL in a document": ("22P05", """SELECT '{"a": "\\u0000"}'::jsonb"""),
    "a deep document": ("54001", "SELECT CAST(repeat('[', 100000) || repeat(']', 100000) AS jsonb)"),
    "temporary files": (
        "53400",
        "SELECT count(DISTINCT n || repeat('x', 1000)) FROM generate_series(1, 20000) AS n",
    ),
    "time": ("57014", "SELECT pg_sleep(30)"),
    "a lock": ("55P03", "LOCK TABLE delivery IN ACCESS EXCLUSIVE MODE"),
}
LIMITS = """
SET LOCAL ROLE NONE; SET LOCAL temp_file_limit = '1MB'; SET LOCAL work_mem = '64kB';
SET LOCAL statement_timeout = '1s'; SET LOCAL lock_timeout = '50ms'
"""


@pytest.mark.parametrize("what", OF_CALLERS)
async def test_no_value_makes_the_database_refuse(database: Database, what: str) -> None:
    """What a caller's value can cause is its own failure: it is not said of the database, and changes no readiness."""
    code, statement = OF_CALLERS[what]

    async def write() -> None:
        async with database.transaction() as tx:
            for limit in LIMITS.split(";"):
                await tx.execute(text(limit))
            await driver_of(tx.connection).execute(statement, prepare=False)

    with psycopg.connect(database.conninfo()) as rival:
        rival.execute("LOCK TABLE delivery IN ROW SHARE MODE")
        with pytest.raises(Exception) as caught:  # noqa: PT011 - it is only not the class below
            await write()
    causes = (caught.value, caught.value.__cause__)
    assert code in {getattr(each, "sqlstate", None) for each in causes}, causes
    assert not isinstance(caught.value, DatabaseRefuses)
    probe = WriteProbe(database)
    await probe.look()
    assert probe.problem is None


async def test_a_used_up_pool_and_a_lock_change_no_readiness(
    own_server: EmbeddedServer,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe that gets no connection, or no answer in time, tells nothing: what was known before stays known."""
    monkeypatch.setattr("slackbot.service.probe_write.PATIENCE", 0.5)
    async with Database(own_server.url, pool_size=1) as db:
        probe = WriteProbe(db)
        for known in (None, "refuses to write: its disk is full"):
            probe.problem = known
            async with db.transaction():
                with monkeypatch.context() as impatient:
                    impatient.setattr(pools, "POOL_WAIT", 0.05)
                    await probe.look()
            assert probe.problem == known
            with psycopg.connect(own_server.conninfo) as rival:
                rival.execute("LOCK TABLE signoff.http_reply")
                await probe.look()
            assert probe.problem == known
        await probe.look()
        assert probe.problem is None


async def test_too_many_connections_are_no_refusal(own_server: EmbeddedServer) -> None:  # noqa: F811
    """Judged when connecting: the database is unavailable to this process, and refuses nobody."""
    with psycopg.connect(own_server.conninfo, autocommit=True) as owner:
        owner.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 1")
        owner.execute("GRANT signoff_app TO crowded")
    url = own_server.url.replace("//postgres@", "//crowded@")
    assert url != own_server.url
    async with Database(url) as db, db.transaction() as held:
        await held.execute(text("SELECT 1"))
        with pytest.raises(DatabaseUnavailable, match="too many connections") as caught:
            async with db.transaction():
                pass
        assert not isinstance(caught.value, DatabaseRefuses)


async def test_each_cause_is_logged_once_a_minute(
    own_server: EmbeddedServer,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Polls, sweeps, leases, calls and clicks fail together: one line for each cause, while it refuses or is away."""
    refuse, _ = REFUSALS["read-only"]
    async with AsyncExitStack() as stack:
        town = await open_town(own_server, stack)
        caplog.set_level(logging.ERROR, "psycopg")
        caplog.clear()
        with capture_logs() as logs, refuse(own_server):
            await says(town.service, 503, database="read-only")
            await town.answers()
            await met(30)
        assert len({each["error"] for each in of_database(logs)}) == len(of_database(logs)) == 1
        assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
        await says(town.service, 200)
        failure_log.forget_failures()
        with capture_logs() as logs:
            own_server.stop()
            await says(town.service, 503)
            await met(30)
        lines = [each["error"] for each in of_database(logs)]
        assert len(lines) == len(set(lines)) <= 3, lines
        assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
        async with asyncio.timeout(20):
            await town.service.stop()
        town.house.stack.pop_all()


async def met(times: int) -> None:
    """Wait until failures were met so often in silence."""

    async def look() -> bool:
        return sum(repeated for _, repeated in failure_log._said.values()) >= times

    await until(look, 60)


def of_database(logs: list[Any]) -> list[Any]:
    return [each for each in logs if each["log_level"] in ("warning", "error", "critical")]


async def test_a_second_line_says_how_often_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute the same cause is logged again, with the number of times in between; others are not held back."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with capture_logs() as logs:
        for moment in (0, 1, 59, 60, 61):
            now[0] = moment
            failure_log.log_failure("a poll failed", DatabaseUnavailable("away"), action="look.failed")
            failure_log.log_failure("work failed", ValueError("own"), action="work.failed", key=str(moment))
    away = [each for each in logs if each["error"] == "away"]
    assert [each.get("repeated") for each in away] == [None, 2]
    assert len(logs) - len(away) == 5
