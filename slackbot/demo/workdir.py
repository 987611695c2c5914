"""Where a demo keeps its things: a folder that it has to itself while it runs."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent.database.locations import data_home
from agent.database.server_user import ServerUser
from signoff.errors import SignoffError

MOST = 9
"""Demos that may run at a time from one folder."""


@dataclass(frozen=True)
class Workdir:
    """`<data home>/demo`, or `demo-2` and so on while others run."""

    path: Path

    @property
    def postgres(self) -> Path:
        """The files of the demo's own PostgreSQL, so that one of `signoff serve --embedded` is left alone."""
        return self.path / "postgres"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints file that the service enforces."""
        return self.path / "checkpoints.toml"

    @property
    def log(self) -> Path:
        """What the service says."""
        return self.path / "service.log"

    @property
    def process(self) -> Path:
        """Which process the service is, for whoever starts after a demo that was killed."""
        return self.path / "service.pid"

    @property
    def evidence(self) -> Path:
        """What `--auto` found, one file per time; shared by all demos."""
        return self.path.parent / "evidence"


@contextmanager
def claim_workdir() -> Iterator[Workdir]:
    """The first folder that no living demo uses. Raises SignoffError when it cannot be had."""
    home = data_home()
    try:
        for number in range(1, MOST + 1):
            workdir = Workdir(home / ("demo" if number == 1 else f"demo-{number}"))
            ServerUser.of(workdir.postgres).make_parents(workdir.postgres)
            with (workdir.path / "lock").open("a") as lock:
                if _is_free(lock):
                    yield workdir
                    return
    except OSError as error:
        raise SignoffError(f"the demo cannot use {home}: {error}") from error
    raise SignoffError(f"{MOST} demos are running in {home} already")


def _is_free(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go when the process ends
    except BlockingIOError:
        return False
    return True
