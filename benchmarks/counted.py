"""Resources that PostgreSQL and processes used between two moments."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import psycopg

from benchmarks.ground import Ground

_SENT = re.compile(r"LOG:  (?:execute [^:\n]*|statement):((?: .*)?(?:\n\t.*)*)")
_NUMBERS = """
SELECT d.xact_commit, w.wal_bytes::bigint, (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')::bigint
FROM pg_stat_database AS d, pg_stat_wal AS w WHERE d.datname = %s
"""
_FLUSHED = "SELECT pg_stat_force_next_flush()"
_PATIENCE = 11.0
"""Seconds until idle connections have reported their statistics: PostgreSQL allows ten."""


@dataclass(frozen=True)
class Spent:
    """Totals of a database since the server started."""

    commits: int
    wal: int
    flushes: int
    server_cpu: float

    def __sub__(self, earlier: Spent) -> Spent:
        return Spent(
            self.commits - earlier.commits,
            self.wal - earlier.wal,
            self.flushes - earlier.flushes,
            self.server_cpu - earlier.server_cpu,
        )


def spent(ground: Ground, name: str) -> Spent:
    """Waits, because connections report with delay."""
    time.sleep(_PATIENCE)
    with psycopg.connect(ground.server.conninfo, autocommit=True) as connection:
        connection.execute(_FLUSHED)
        row = connection.execute(_NUMBERS, [name]).fetchone()
    if row is None:
        raise RuntimeError(f"there is no database {name}")
    commits, wal, flushes = (int(number) for number in row)
    return Spent(commits, wal, flushes, server_cpu(ground))


def server_cpu(ground: Ground) -> float:
    """CPU seconds, including exited processes."""
    server = psutil.Process(ground.server.pid)
    ended = server.cpu_times()
    living = sum(seconds(each) for each in (server, *server.children()))
    return living + float(ended.children_user + ended.children_system)


def seconds(process: psutil.Process) -> float:
    """CPU seconds; 0 if the process has just exited."""
    try:
        taken = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(taken.user + taken.system)


@contextmanager
def statements(ground: Ground) -> Iterator[Counter[str]]:
    """Count statements during the block by their first words; filled when the block ends.

    BEGIN and COMMIT are left out: they travel with other statements, and commits are counted separately.
    """
    log = ground.server.data_dir.with_name(ground.server.data_dir.name + ".log")
    counted: Counter[str] = Counter()
    _log_all(ground, "all")
    begun = log.stat().st_size
    try:
        yield counted
    finally:
        _log_all(ground, "none")
    with log.open(errors="replace") as file:
        file.seek(begun)
        sent = (" ".join(found[1].split())[:120] for found in _SENT.finditer(file.read()))
        counted.update(each for each in sent if each not in ("BEGIN", "COMMIT"))


def _log_all(ground: Ground, what: str) -> None:
    with psycopg.connect(ground.server.conninfo, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET log_statement = '{what}'")
        connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.3)
