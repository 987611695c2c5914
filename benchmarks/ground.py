"""One embedded PostgreSQL with fsync on, and a new database per side."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import structlog

from agent.database import embedded_server, locations, migrations
from benchmarks.stats import median

SLOW_FLUSH = Path(__file__).with_name("slow_flush.c")
_ABOUT = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
)


@dataclass(frozen=True)
class Ground:
    home: Path
    server: embedded_server.EmbeddedServer

    def fresh(self, name: str, *, migrated: bool = True) -> str:
        url = self.server.fresh_database(name)
        if migrated:
            migrations.upgrade(url)
        return url

    def about(self) -> dict[str, Any]:
        with psycopg.connect(self.server.conninfo, autocommit=True) as connection:
            rows = [connection.execute(f"SHOW {name}").fetchone() for name in _ABOUT]
        said = {name: str(row[0]) for name, row in zip(_ABOUT, rows, strict=True) if row}
        return said | {"flush_ms": round(self.flush_ms(), 3)}

    def flush_ms(self) -> float:
        """The cost of a flush per commit: the median with it minus the median without."""
        with psycopg.connect(self.server.conninfo, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS flushed (n int)")
            taken = {how: _commit_ms(connection, how) for how in ("off", "on")}
            connection.execute("DROP TABLE flushed")
        return taken["on"] - taken["off"]


def _commit_ms(connection: psycopg.Connection[Any], synchronous: str) -> float:
    connection.execute(f"SET synchronous_commit = {synchronous}")
    taken = []
    for n in range(200):
        begun = time.perf_counter()
        connection.execute("INSERT INTO flushed VALUES (%s)", [n])
        taken.append((time.perf_counter() - begun) * 1e3)
    return median(taken)


@contextmanager
def ground() -> Iterator[Ground]:
    with _running("bench") as started:
        yield started


@contextmanager
def slow_ground(flush_ms: float) -> Iterator[Ground | None]:
    """None without a C compiler to slow the flushes."""
    home = locations.data_home() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    compiler = shutil.which("cc")
    if compiler is None:
        yield None
        return
    library = home / "slow_flush.so"
    stack = ExitStack()
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SLOW_FLUSH, "-ldl"], check=True)
    with _environment(LD_PRELOAD=str(library), SLOW_FLUSH_US=str(round(flush_ms * 1000))):
        started = stack.enter_context(_running("bench-slow"))
    with stack:
        yield started


@contextmanager
def _running(name: str) -> Iterator[Ground]:
    home = locations.data_home() / name
    home.mkdir(parents=True, exist_ok=True)
    server = embedded_server.start(home / "postgres", durable=True)
    try:
        with _logging_to(home / "bench.log"):
            yield Ground(home, server)
    finally:
        server.stop()


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    before = structlog.get_config()
    with path.open("w") as log:
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=log))
        try:
            yield
        finally:
            structlog.configure(**before)


@contextmanager
def _environment(**added: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def settle(url: str, places: Sequence[tuple[str, str]]) -> None:
    """Mark everything as delivered, at these places (ts, nonce)."""
    with owner(url) as connection:
        with connection.cursor() as cursor:
            cursor.executemany("UPDATE card_place SET ts = %s WHERE nonce = %s", places)
        connection.execute("UPDATE delivery SET state = 'sent', sent_at = clock_timestamp()")
        connection.execute("UPDATE tool_call SET announced_at = clock_timestamp() WHERE state = 'asked'")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def take_back(url: str) -> None:
    """Drop all pending messages: waiting for a channel's pace is not measured."""
    with owner(url) as connection:
        connection.execute(
            "UPDATE delivery SET state = 'sent', sent_at = clock_timestamp() WHERE state = 'pending'"
        )


def owner(url: str) -> psycopg.Connection[Any]:
    """A connection with all rights on our schema and synchronous_commit off."""
    plain = url.replace("postgresql+psycopg:", "postgresql:", 1)
    return psycopg.connect(plain, autocommit=True, options="-c search_path=signoff -c synchronous_commit=off")
