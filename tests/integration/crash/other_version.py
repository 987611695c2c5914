"""Another version beside this one, with one migration less (from the history) or more: its `signoff serve`."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.integration import next_revision
from tests.integration.crash.process import ROOT, Serve, environment

VERSIONS = "alembic/versions"
CODE = ("agent", "alembic", "signoff", "slackbot")


def invent_next(folder: Path) -> None:
    """Write this version here with a revision more."""
    for each in CODE:
        shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
    next_revision.write(folder / "alembic")


def unpack(folder: Path) -> str | None:
    """Unpack the commit before here; return its id, or None if there is none of this lineage in the history."""
    *earlier, newest = sorted(path.name for path in (ROOT / VERSIONS).glob("[0-9]*.py"))
    if not earlier:
        return None
    came = _git("log", "--diff-filter=A", "--format=%H", "-1", "--", f"{VERSIONS}/{newest}")
    before = came and _git("rev-parse", "--verify", "--quiet", f"{came}^")
    if not before:
        return None
    folder.mkdir()
    archive = folder / "tree.tar"
    subprocess.run(["git", "archive", "-o", archive, before], cwd=ROOT, check=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return before


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


@dataclass
class OtherServe(Serve):
    """`signoff serve` of another tree, with the libraries of this one."""

    tree: Path = ROOT

    async def begin(self, settings: Mapping[str, str]) -> OtherLife:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slackbot", "serve"),
            env=environment(settings, self.folder, tree=self.tree),
            cwd=self.folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
        )
        return OtherLife(process)


@dataclass
class OtherLife:
    process: Process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def wait(self) -> int:
        return await self.process.wait()
