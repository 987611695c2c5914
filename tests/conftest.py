from __future__ import annotations

import asyncio
import gc
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# Tests call loopback only, so no client needs to load the system's certificates.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

import psycopg
import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, settings

from agent.database import embedded_server, migrations
from agent.database.failure_log import forget_failures
from agent.database.pools import Database
from tests import lock_recorder, other_postgres
from tests.databases import TEMPLATE, Postgres
from tests.stress.budget import check_budgets
from tests.warm_python import WarmPython

settings.register_profile(
    "signoff", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("signoff")  # the machine's speed proves nothing about the code

other_postgres.use_it()

gc.disable()  # until collection ends: imported objects stay

_PROCESSORS = structlog.get_config()["processors"]
FILES = "PYTEST_SERVER_FILES"
"""The folder whose files each test process copies for its server."""
OF_THE_MACHINE = ("SIGNOFF_", "SLACK_", "OPENAI_", "DATABASE_URL")


# Some tests hold hundreds of connections; many accounts may open only 1,024 files until they ask for more.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _most))


@pytest.hookimpl(tryfirst=True)  # before the slow tests are deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make stress` would refuse a slow test without a budget; `make test` says so already."""
    check_budgets(item.name.partition("[")[0] for item in items if item.get_closest_marker("stress"))


def pytest_collection_finish() -> None:
    """Collect only the tests' garbage, without scanning half a million imported objects."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Fork the workers from a process that has loaded the tests."""
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
    return uvloop.new_event_loop


def fastest_folder() -> Path:
    """Memory, if there is plenty: databases are then copied several times faster than on a busy disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**31:
        return memory
    return Path("/tmp")


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> None:
    """With `rich`, structlog draws all variables of a traceback, which takes seconds of a core."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*_PROCESSORS[:-1], plain])


@pytest.fixture(autouse=True)
def _every_failure_is_logged() -> None:
    """What an earlier test met is logged again."""
    forget_failures()


@pytest.fixture(autouse=True)
def _nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(OF_THE_MACHINE):
            monkeypatch.delenv(name)


def new_home() -> Path:
    """A folder with a short path, because socket paths end at 103 bytes."""
    home = Path(tempfile.mkdtemp(prefix="signoff-test-", dir=fastest_folder()))
    home.chmod(0o755)  # root's server runs as another user
    return home


def make_server_files(folder: Path) -> None:
    server = embedded_server.start(folder, durable=False)
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET autovacuum = off")  # its timing must not matter
            admin.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
        migrations.upgrade(server.url.replace("/postgres?", f"/{TEMPLATE}?"))
    finally:
        server.stop()


@pytest.fixture(scope="session")
def server_files() -> Iterator[Path]:
    """Copy them, with their owner."""
    if FILES in os.environ:
        yield Path(os.environ[FILES])
        return
    home = new_home()
    make_server_files(home / "pg")
    yield home / "pg"
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(server_files: Path) -> Iterator[Postgres]:
    """One per test process."""
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
    """Migrated and empty; locks must be taken in the lock order."""
    yield postgres.lend().url
    try:
        lock_recorder.check(postgres.lend().url)
    finally:
        postgres.take_back()


@pytest.fixture
def database(postgres: Postgres, database_url: str) -> Database:
    """With the service's rights (`signoff_app`)."""
    return postgres.lend().keep("signoff tests")
