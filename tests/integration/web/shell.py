"""Commands of `signoff` that call a running service."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self
from uuid import UUID

import pytest

from agent.domain.api_keys import Scope
from agent.domain.request_view import RequestView
from agent.store import views
from agent.usecases import api_keys
from slackbot import cli
from slackbot.slack.listeners.context import ListenerContext
from tests.integration.asking import column
from tests.integration.crash.process import environment
from tests.integration.web.conftest import ADA, Street, until


@dataclass
class Started:
    process: BaseProcess
    printed: Path
    said: Path

    async def says(self, words: str) -> None:
        """Wait until its standard error contains these words."""

        async def look() -> bool:
            said = words in self.said.read_text()
            assert said or self.process.is_alive(), self.said.read_text()
            return said

        await until(look, 60)

    async def ends(self) -> tuple[int, str]:
        """Wait for its exit code and output."""

        async def look() -> bool:
            return not self.process.is_alive()

        await until(look, 60)
        return int(self.process.exitcode or 0), self.said.read_text()

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


def _command(
    folder: str, files: Sequence[str], arguments: Sequence[str], settings: Mapping[str, str]
) -> None:
    for number, (name, flags) in enumerate(zip(files, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(name, flags | os.O_APPEND), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    os.environ.clear()
    os.environ.update(settings)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    sys.argv = ["signoff", *arguments]
    cli.main()


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """A fork server that has loaded everything once: each process starts in milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["signoff.gate.gate_command", "signoff.gate.hook_steps", __name__])
    first = context.Process(target=int)  # before a service waits for the test
    first.start()
    first.join()
    return context


@dataclass
class Shell:
    site: Street
    folder: Path
    settings: dict[str, str]
    processes: ForkServerContext
    started: list[Started] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def opened(cls, site: Street, folder: Path, processes: ForkServerContext) -> AsyncIterator[Self]:
        secret = await api_keys.create(site.db, "ci", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)
        (folder / "key").write_text(f"{secret}\n")
        settings = {"SIGNOFF_URL": site.url, "SIGNOFF_KEY_FILE": str(folder / "key")}
        settings["XDG_STATE_HOME"] = str(folder / "state")
        shell = cls(site, folder, settings, processes)
        yield shell
        for each in shell.started:
            each.process.kill()
            each.process.join()

    def start(self, *arguments: str, given: bytes = b"") -> Started:
        files = [self.folder / f"{name}-{len(self.started)}" for name in ("given", "printed", "said")]
        for each in files:
            each.write_bytes(given if each is files[0] else b"")
        names = [str(each) for each in files]
        process = self.processes.Process(
            target=_command, args=(str(self.folder), names, arguments, environment(self.settings))
        )
        process.start()
        self.started.append(Started(process, files[1], files[2]))
        return self.started[-1]

    async def request(self) -> str:
        sql = "SELECT id::text FROM approval_request WHERE status = 'waiting'"
        return str((await until(lambda: column(self.site.db, sql)))[0])

    @property
    def ctx(self) -> ListenerContext:
        parts = self.site.service.slack.parts
        assert parts is not None
        assert parts.listening is not None
        return parts.listening.ctx

    async def view(self, request: str) -> RequestView:
        async with self.site.db.connection() as connection:
            view = await views.request_view(connection, UUID(request))
        assert view is not None
        return view

    async def statuses(self) -> list[str]:
        return await column(self.site.db, "SELECT status::text FROM approval_request ORDER BY id")

    async def executions(self) -> list[str]:
        sql = "SELECT status::text || ': ' || coalesce(error, result) FROM execution ORDER BY id"
        return await column(self.site.db, sql)
