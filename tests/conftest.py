"""What every test may ask for: a clean environment, and a database of its own on a real PostgreSQL."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from hypothesis import HealthCheck, settings

from agent.database import embedded_server, migrations
from agent.database.pools import Database

settings.register_profile("signoff", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("signoff")  # how fast the machine is says nothing about the code

gc.disable()  # until all tests are known: what is imported stays

TEMPLATE = "signoff_template"
_PROCESSORS = structlog.get_config()["processors"]
OF_THE_MACHINE = ("SIGNOFF_", "SLACK_", "OPENAI_", "DATABASE_URL")


def pytest_collection_finish() -> None:
    """Collect the garbage of the tests alone, and not look each time through half a million imported objects."""
    gc.freeze()
    gc.enable()


@dataclass
class Postgres:
    """The server of this test process; its databases are copies of a migrated one, made in milliseconds."""

    server: embedded_server.EmbeddedServer
    admin: psycopg.Connection[Any]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, name: str) -> str:
        """The address of the database `name`, as the superuser who owns everything."""
        return self.server.url.replace("/postgres?", f"/{name}?")

    def create(self, template: str = "template0") -> str:
        """A new database; returns its name."""
        name = f"test_{next(self._numbers)}"
        self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def drop(self, name: str) -> None:
        self.admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def fastest_folder() -> Path:
    """Memory where there is plenty of it: copying a database is then several times faster than on a busy disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**31:
        return memory
    return Path("/tmp")


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> None:
    """structlog draws a traceback with all its variables where `rich` is installed, which takes seconds of a core."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*_PROCESSORS[:-1], plain])


@pytest.fixture(autouse=True)
def _nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests gets into them."""
    for name in os.environ:
        if name.startswith(OF_THE_MACHINE):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server per test process, in a short path because socket paths end at 103 bytes."""
    home = Path(tempfile.mkdtemp(prefix="signoff-test-", dir=fastest_folder()))
    home.chmod(0o755)  # as root the server runs as another user, who has to pass
    server = embedded_server.start(home / "pg", durable=False)
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            found = Postgres(server, admin)
            admin.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
            migrations.upgrade(found.url(TEMPLATE))
            yield found
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    """A migrated, empty database of the test's own."""
    name = postgres.create(TEMPLATE)
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The same database, opened as the service opens it: with the rights of `signoff_app`."""
    async with Database(database_url, application_name="signoff tests") as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why a test was tried again, in a line: the second try hides it, and it may be more than a slow machine."""
    for report in terminalreporter.stats.get("rerun", []):
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.write_line(f"RERUN {report.nodeid}: {crash or str(report.longrepr)[-300:]}")
