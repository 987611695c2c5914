"""What every test may ask for: a clean environment, and a database of its own on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# Tests call loopback only. No client loads the system's certificates from a folder that has none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

import psycopg
import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, settings

from agent.database import embedded_server, migrations
from agent.database.pools import Database
from tests import lock_recorder
from tests.databases import TEMPLATE, Postgres
from tests.warm_python import WarmPython

settings.register_profile(
    "signoff", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("signoff")  # how fast the machine is says nothing about the code

gc.disable()  # until all tests are known: what is imported stays

_PROCESSORS = structlog.get_config()["processors"]
FILES = "PYTEST_SERVER_FILES"
"""Where the files are that each test process copies for its server."""
OF_THE_MACHINE = ("SIGNOFF_", "SLACK_", "OPENAI_", "DATABASE_URL")


def pytest_collection_finish() -> None:
    """Collect the garbage of the tests alone, and not look each time through half a million imported objects."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Fork the workers from a process that has loaded the tests, and make the files of their servers meanwhile."""
    warm = WarmPython.start(config.args)
    config.add_cleanup(warm.stop)
    for spec in specs:
        if spec.popen and not spec.python:
            spec.python = warm.program
    home = new_home()
    config.add_cleanup(partial(shutil.rmtree, home, ignore_errors=True))
    make_server_files(home / "pg")
    os.environ[FILES] = str(home / "pg")


@pytest.fixture(scope="session")
def _asyncio_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Tests run on the event loop of the service."""
    return uvloop.new_event_loop


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


def new_home() -> Path:
    """A folder for a server, in a short path because socket paths end at 103 bytes."""
    home = Path(tempfile.mkdtemp(prefix="signoff-test-", dir=fastest_folder()))
    home.chmod(0o755)  # as root the server runs as another user, who has to pass
    return home


def make_server_files(folder: Path) -> None:
    """The files of a server that has the migrated database."""
    server = embedded_server.start(folder, durable=False)
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET autovacuum = off")  # a test must not depend on when it runs
            admin.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
        migrations.upgrade(server.url.replace("/postgres?", f"/{TEMPLATE}?"))
    finally:
        server.stop()


@pytest.fixture(scope="session")
def server_files() -> Iterator[Path]:
    """Such files, for all workers: copy them, with their owner."""
    if FILES in os.environ:
        yield Path(os.environ[FILES])
        return
    home = new_home()
    make_server_files(home / "pg")
    yield home / "pg"
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(server_files: Path) -> Iterator[Postgres]:
    """One server per test process."""
    home = new_home()
    subprocess.run(["cp", "-a", server_files, home / "pg"], check=True)
    lock_recorder.install()
    server = embedded_server.start(home / "pg", durable=False)
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            found = Postgres(server, admin)
            yield found
            found.retire()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    """A migrated, empty database, for this test alone, in which locks have to be taken in the lock order."""
    yield postgres.lend().url
    try:
        lock_recorder.check(postgres.lend().url)
    finally:
        postgres.take_back()


@pytest.fixture
def database(postgres: Postgres, database_url: str) -> Database:
    """The same database, opened as the service opens it: with the rights of `signoff_app`."""
    return postgres.lend().keep("signoff tests")
