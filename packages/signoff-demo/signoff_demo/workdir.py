"""The directory of one demo, which no other demo uses."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent.database.locations import data_home
from agent.database.postmaster import ServerUser
from signoff.errors import SignoffError

MOST = 9


@dataclass(frozen=True)
class Workdir:
    """`<data home>/demo`, or `demo-2` and so on while others run."""

    path: Path

    @property
    def postgres(self) -> Path:
        """Separate from `signoff serve --embedded`."""
        return self.path / "postgres"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints.toml"

    @property
    def log(self) -> Path:
        return self.path / "service.log"

    @property
    def process(self) -> Path:
        """The service's process id, for a demo that starts after this one was killed."""
        return self.path / "service.pid"

    @property
    def evidence(self) -> Path:
        """Results of `--auto`, one file per run; shared by all demos."""
        return self.path.parent / "evidence"


@contextmanager
def claim_workdir() -> Iterator[Workdir]:
    """The first directory that no demo uses. Raises SignoffError."""
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
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system when the process ends
    except BlockingIOError:
        return False
    return True
