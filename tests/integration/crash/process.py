"""`signoff` as a process of its own, that can be killed, told to die at a named point, and started again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[3]
FAULT_STATUS = 137
START_SECONDS = 60.0
_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


def environment(settings: Mapping[str, str], *paths: Path) -> dict[str, str]:
    """What a process of ours sees: this code, these folders with modules, these settings, and nothing else."""
    path = os.pathsep.join(str(each) for each in (*paths, ROOT))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", **settings}


@dataclass
class Ended:
    """How a command ended, and all that it said."""

    status: int
    said: str


@dataclass
class Serve:
    """`signoff serve`, one life after another."""

    settings: Mapping[str, str]
    folder: Path
    lines: list[str] = field(default_factory=list)
    port: int = 0
    _process: asyncio.subprocess.Process | None = None
    _reader: asyncio.Task[None] | None = None
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(
        self,
        fault: str = "",
        changes: Mapping[str, str] = MappingProxyType({}),
        *,
        listens: bool = True,
        may_end: bool = False,
    ) -> None:
        """Begin a life, and wait until it listens (or has started, when it does not listen).

        `fault` is a point at which it is to die. `may_end`: it may end before that.
        """
        settings = {**self.settings, **changes} | ({"SIGNOFF_FAULT": fault} if fault else {})
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "slackbot",
            "serve",
            env=environment(settings, self.folder),
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        began = len(self.lines)
        self._reader = asyncio.create_task(self._read(self._process))
        sign = _LISTENING.pattern if listens else "service.started"
        await self.says(sign, since=began, seconds=START_SECONDS, dead=bool(fault) or may_end)

    async def says(
        self, words: str, *, since: int = 0, seconds: float = 10.0, dead: bool = False
    ) -> re.Match[str] | None:
        """Wait for a line in which this pattern is found. `dead`: it may die before it says so."""
        pattern = re.compile(words)
        async with asyncio.timeout(seconds):
            while True:
                self._heard.clear()
                for line in self.lines[since:]:
                    if match := pattern.search(line):
                        return match
                if self._reader is None or self._reader.done():
                    assert dead, f"it ended before it said {words!r}: {self.said()}"
                    return None
                await self._heard.wait()

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process is not None and self._process.returncode is None

    async def ends(self, seconds: float = 20.0) -> int:
        """Wait for its end; returns its status."""
        assert self._process is not None
        assert self._reader is not None
        async with asyncio.timeout(seconds):
            status = await self._process.wait()
            await self._reader
        return status

    async def kill(self) -> None:
        """`kill -9`."""
        if self.alive and self._process is not None:
            self._process.kill()
            await self.ends()

    def terminate(self) -> None:
        """SIGTERM."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    async def stop(self, seconds: float = 40.0) -> int:
        """SIGTERM, and wait; returns its status."""
        self.terminate()
        return await self.ends(seconds)

    def said(self, last: int = 40) -> str:
        """The end of all that it said."""
        return "\n".join(self.lines[-last:])

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())
            if match := _LISTENING.search(self.lines[-1]):
                self.port = int(match.group(1))
            self._heard.set()
        self._heard.set()
