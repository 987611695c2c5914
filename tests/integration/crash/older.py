"""The previous version: the newest commit with one migration less, and its `signoff serve`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.integration.crash.process import ROOT, Serve, environment

VERSIONS = "alembic/versions"


def unpack(folder: Path) -> str | None:
    """Unpack that commit here; return its id, or None without the history."""
    newest = max((ROOT / VERSIONS).glob("[0-9]*.py")).name
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
class OlderServe(Serve):
    """`signoff serve` of another tree, with the libraries of this one."""

    tree: Path = ROOT

    async def begin(self, settings: Mapping[str, str]) -> OlderLife:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slackbot", "serve"),
            env=environment(settings, self.folder, tree=self.tree),
            cwd=self.folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
        )
        return OlderLife(process)


@dataclass
class OlderLife:
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
