"""What `/readyz` says while parts of the world are away, and that they are taken up again when they return."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from agent.database import embedded_server, failure_log, migrations
from agent.database.embedded_server import EmbeddedServer
from agent.runtime import attempts
from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from agent.usecases import pause, runs
from agent.usecases.runs import NewRun
from slackbot.app import Service
from slackbot.slack.socket_mode import TOO_MANY_WORDS
from tests.conftest import fastest_folder
from tests.integration.asking import write
from tests.integration.crash.street import until
from tests.integration.service.conftest import House, a_house
from tests.patience import promised

AGENT = Agent("data", "You manage data.")
WORK_BEGINS = 5.0
"""Seconds after the database's return."""


async def readyz(service: Service) -> tuple[int, dict[str, Any]]:
    """Status and body, as an orchestrator sees them."""

    def ask() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/readyz", timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    return await asyncio.to_thread(ask)


async def says(service: Service, status: int, seconds: float = 30.0, **parts: Any) -> None:
    """Wait until `/readyz` answers with this status, and with these words in its body."""
    last: Any = None

    async def look() -> bool:
        nonlocal last
        last = await readyz(service)
        return last[0] == status and all(str(words) in str(last[1][name]) for name, words in parts.items())

    await until(look, seconds, lambda: last)


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    """The service over signed HTTP."""
    async with a_house(database_url, "http") as opened:
        yield opened


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A PostgreSQL that this test may stop."""
    folder = fastest_folder() / f"signoff-{tmp_path_factory.getbasetemp().name}-{id(object()):x}"
    folder.mkdir()
    folder.chmod(0o755)
    server = embedded_server.start(folder / "pg", durable=False)
    migrations.upgrade(server.url)
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


async def test_a_database_that_stops_makes_it_unready_until_it_returns(own_server: EmbeddedServer) -> None:
    """503 with the reason during the outage; afterwards work begins within 5 s, and the process can stop without the
    database. Polls continue meanwhile, so the first one that is answered begins the work.
    """

    async def ended(house: House) -> bool:
        return await house.column("SELECT status::text FROM agent_run") == ["completed"]

    async with a_house(own_server.url, "http") as house:
        service = await house.open([AGENT])
        await says(service, 200, database="ok", slack="connected")
        await pause.pause(house.db, None, by="test")
        await house.ask("U0ADA", "hello")
        await house.says("Paused")
        own_server.stop()
        await says(service, 503, database="the database")
        again = embedded_server.start(own_server.data_dir, durable=False)
        try:
            await write(house.db, "DELETE FROM pause")
            await until(partial(ended, house), promised(WORK_BEGINS))
            await says(service, 200, database="ok")
            await house.says("Nothing is pending", seconds=30.0)
            await says(service, 200, worker=True)
        finally:
            again.stop()
        async with asyncio.timeout(20):  # told to stop while the database is away, it ends as well
            await service.stop()
        house.stack.pop_all()


async def test_no_failure_in_the_background_stays_unread(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL is killed while a tool runs: that its run cannot be shown at work is a line in the log, and no task's
    exception is left for Python's collector to find.
    """
    monkeypatch.setattr(attempts, "SHOWN_AFTER", 2.0)
    monkeypatch.setattr(failure_log, "QUIET", 0.0)  # other parts fail for the same cause
    begun, release = threading.Event(), threading.Event()

    @tool
    def delete_records(table_name: str, count: int) -> str:
        """Delete records from a table."""
        begun.set()
        release.wait(60)
        return f"Deleted {count} records from {table_name}"

    unread: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
    async with a_house(own_server.url, "http") as house:
        service = await house.open([Agent("data", "You manage data.", [delete_records])])
        await house.ask("U0ADA", "please delete_records table_name=users count=50")
        await house.slack.person("U0GRACE").click(await house.card(0), "signoff:approve")
        assert await asyncio.to_thread(begun.wait, 30)
        with capture_logs() as logs:
            os.kill(own_server.pid, signal.SIGKILL)
            later = asyncio.Event()
            asyncio.get_running_loop().call_later(attempts.SHOWN_AFTER, later.set)
            await later.wait()

            async def tried() -> bool:
                return all(task.get_name() != "at work" for task in asyncio.all_tasks())

            await until(tried, 30.0)
        assert [each["task"] for each in logs if each.get("action") == "background.failed"] == ["at work"]
        release.set()
        async with asyncio.timeout(40):
            await service.stop()
        house.stack.pop_all()
    gc.collect()
    await asyncio.sleep(0)
    assert unread == []


async def test_a_schema_that_is_not_current_makes_it_unready(
    house: House, owner: psycopg.Connection[Any]
) -> None:
    """An older schema is not ours to work with, nor a newer one made for newer code, nor one that another text of the
    first revision made; the body says which it is.
    """
    service = await house.open([AGENT])
    mine = migrations.head()
    owner.execute("UPDATE alembic_version SET version_num = '0000'")
    await says(service, 503, database=f"its schema is at 0000, not {mine}")
    owner.execute("UPDATE alembic_version SET version_num = '9999'")
    await says(
        service, 503, database=f"its schema is at 9999, not {mine}"
    )  # the view speaks of another version
    works_with = "CREATE OR REPLACE VIEW works_with AS SELECT '9999'::text AS version, %s::text AS oldest"
    owner.execute(works_with.replace("%s", f"'{mine}'"))
    await says(service, 200, database="ok")
    owner.execute(
        "CREATE OR REPLACE VIEW works_with AS SELECT '9999'::text AS version, '9999'::text AS oldest"
    )
    await says(service, 503, database=f"its schema is at 9999, not {mine}")
    owner.execute("UPDATE alembic_version SET version_num = %s", [mine])
    await says(service, 200, database="ok")
    owner.execute("CREATE OR REPLACE VIEW lineage AS SELECT 'another'::text AS marker")
    await says(
        service,
        503,
        database=f"its schema was made by another checkout of Signoff, before the first release (version {mine})",
    )
    owner.execute("DROP VIEW lineage")
    await says(service, 503, database="its schema was made by another checkout of Signoff")


async def test_slack_away_is_told_and_is_no_reason_to_leave_traffic(house: House) -> None:
    """Slack fails after a good start: still 200, with what Slack answers in the body, until it takes messages again."""
    service = await house.open([AGENT])
    await says(service, 200, slack="connected")
    house.slack.faults.http_500("*", times=None)
    new = NewRun("data", "1", "hello", "slack", None, "slack", "T0SANDBOX", "C0AGENTS")
    await runs.start(house.db, new)
    await says(service, 200, slack="could not be looked up")
    house.slack.faults.clear()
    await says(service, 200, slack="connected")


async def test_a_socket_that_is_closed_is_told(database_url: str) -> None:
    """Socket Mode without a connection: clicks do not arrive, and the body reports it."""
    async with a_house(database_url, "socket") as house:
        service = await house.open([AGENT])
        await says(service, 200, slack="connected")
        house.slack.faults.refuse_tickets(times=None)
        await house.slack.sockets.close()
        await says(service, 200, slack="socket closed")
        house.slack.faults.clear()
        await says(service, 200, slack="connected", seconds=30.0)


async def test_too_many_sockets_are_told(database_url: str) -> None:
    """Ten other processes hold the app's connections: the body gives Slack's reason and what to do."""
    async with a_house(database_url, "socket") as house:
        service = await house.open([AGENT])
        await says(service, 200, slack="connected")
        house.slack.faults.too_many_websockets(times=None)
        await house.slack.sockets.refresh()
        await says(service, 200, slack=f"socket closed: {TOO_MANY_WORDS}", seconds=30.0)
