"""`signoff` as its own process, which can be killed, made to die at a named point, and restarted."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

import pytest

from agent import fault_points
from slackbot import cli
from tests.patience import lengthen_budgets

ROOT = Path(__file__).resolve().parents[3]
FAULT_STATUS = 137
START_SECONDS = 60.0
_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


def environment(settings: Mapping[str, str], *paths: Path, tree: Path = ROOT) -> dict[str, str]:
    """Only this code, these folders with modules, and these settings."""
    path = os.pathsep.join(str(each) for each in (*paths, tree))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", **settings}


@dataclass
class Ended:
    status: int
    said: str


class AnyLife(Protocol):
    @property
    def pid(self) -> int: ...
    @property
    def stdout(self) -> asyncio.StreamReader: ...
    @property
    def alive(self) -> bool: ...
    def send_signal(self, number: int) -> None: ...
    async def wait(self) -> int: ...


@dataclass
class Life:
    process: BaseProcess
    stdout: asyncio.StreamReader
    joined: asyncio.Future[None]
    """Only one thread may wait for the end: of two, one would read another status."""

    @classmethod
    async def begin(cls, settings: Mapping[str, str], folder: Path) -> Life:
        """Fork from a server that has loaded everything once, in milliseconds."""
        ours, theirs = _processes.Pipe(duplex=False)
        process = _processes.Process(target=_serve, args=(str(folder), dict(settings), theirs))
        await asyncio.to_thread(_start, process)
        theirs.close()
        stdout = asyncio.StreamReader()
        pipe = os.fdopen(os.dup(ours.fileno()), "rb")
        ours.close()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), pipe)
        joined = asyncio.get_running_loop().create_future()
        threading.Thread(target=_join, args=(process, joined), daemon=True).start()
        return cls(process, stdout, joined)

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return not self.joined.done()

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(self.pid, number)

    async def wait(self) -> int:
        await asyncio.shield(self.joined)
        assert self.process.exitcode is not None
        return self.process.exitcode


_STATUS = threading.Lock()
"""A status can be read only once, and starting a process reads those of all others that have ended."""


def _start(process: BaseProcess) -> None:
    with _STATUS:
        process.start()


def _join(process: BaseProcess, joined: asyncio.Future[None]) -> None:
    wait([process.sentinel])
    with _STATUS:
        process.join()
    with suppress(RuntimeError):  # the test is over
        joined.get_loop().call_soon_threadsafe(joined.set_result, None)


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.integration.crash.preloaded"])


def _serve(folder: str, settings: Mapping[str, str], output: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(line_buffering=True)
    if limit := int(settings.get("OPEN_FILES", 0)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit // 2, limit))
    os.environ.clear()
    os.environ.update(settings)
    os.chdir(folder)
    sys.path[:0] = [folder]
    sys.argv = ["signoff", "serve"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    fault_points._ARMED = fault_points._armed(settings.get("SIGNOFF_FAULT", ""))  # loaded earlier
    lengthen_budgets(pytest.MonkeyPatch())
    sys.addaudithook(_read_only)
    cli.main()


def _read_only(event: str, args: tuple[Any, ...]) -> None:
    """Only /tmp is writable, as in the image and the manifests."""
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not writes or not isinstance(path, str):  # a number: the file is open already
            return
    elif event in ("os.mkdir", "os.remove", "os.rename"):
        path = os.fspath(args[0])
    else:
        return
    if not path.startswith(("/tmp/", "/dev/")):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


@dataclass
class Serve:
    settings: Mapping[str, str]
    folder: Path
    lines: list[str] = field(default_factory=list)
    port: int = 0
    _process: AnyLife | None = None
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
        """Wait until it listens (or has started, when it does not listen). `fault` is a point at which it dies;
        `may_end`: it may end earlier.
        """
        settings = {**self.settings, **changes} | ({"SIGNOFF_FAULT": fault} if fault else {})
        self._process = await self.begin(settings)
        began = len(self.lines)
        self._reader = asyncio.create_task(self._read(self._process))
        sign = _LISTENING.pattern if listens else "service.started"
        await self.says(sign, since=began, seconds=START_SECONDS, dead=bool(fault) or may_end)

    async def begin(self, settings: Mapping[str, str]) -> AnyLife:
        return await Life.begin(environment(settings, self.folder), self.folder)

    async def says(
        self, words: str, *, since: int = 0, seconds: float = 30.0, dead: bool = False
    ) -> re.Match[str] | None:
        """Wait for a line with this pattern. `dead`: the process may die before."""
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
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def ends(self, seconds: float = 20.0) -> int:
        assert self._process is not None
        assert self._reader is not None
        async with asyncio.timeout(seconds):
            status = await self._process.wait()
            await self._reader
        return status

    async def kill(self) -> None:
        if self.alive and self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            await self.ends()

    def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    async def stop(self, seconds: float = 40.0) -> int:
        """SIGTERM."""
        self.terminate()
        return await self.ends(seconds)

    def said(self, last: int = 40) -> str:
        return "\n".join(self.lines[-last:])

    async def _read(self, process: AnyLife) -> None:
        async for line in process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())
            if match := _LISTENING.search(self.lines[-1]):
                self.port = int(match.group(1))
            self._heard.set()
        self._heard.set()
