"""`signoff serve` in its own process, restarted if it dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import psutil

from signoff.errors import SignoffError
from signoff_demo.workdir import Workdir

OURS = ("SIGNOFF_", "SLACK_", "OPENAI_", "DATABASE_URL")
"""Settings that the demo's service must not see."""

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""Removed: everything is on this machine and Slack's client ignores NO_PROXY."""

WRONG = 2  # a configuration error
QUICK_EXIT = 5.0
PATIENCE = 3
STOP_SECONDS = 10.0


class ServiceFailed(SignoffError):
    """`tail` is the end of its log."""

    def __init__(self, why: str, tail: Sequence[str]) -> None:
        super().__init__(why)
        self.tail = tail


class ServiceProcess:
    """`connected` waits for its Slack connection, `tell` receives its news."""

    def __init__(
        self,
        workdir: Workdir,
        environment: Mapping[str, str],
        connected: Callable[[], Awaitable[object]],
        tell: Callable[[str], None],
        command: Sequence[str] = (),
    ) -> None:
        self._workdir = workdir
        self._environment = dict(environment)
        self._connected = connected
        self._tell = tell
        self._command = command or (sys.executable, "-m", "slackbot", "serve")
        self.pid = 0
        self.endings: list[int] = []  # negative: killed by a signal
        self.ready = asyncio.Event()

    async def supervise(self) -> None:
        """Run until cancelled, then stop. Raises ServiceFailed if restarting is pointless."""
        _kill_leftover(self._workdir.process)
        quick = 0
        while True:
            began = time.monotonic()
            code = await self._live()
            self.endings.append(code)
            quick = quick + 1 if time.monotonic() - began < QUICK_EXIT else 0
            if code == WRONG or quick >= PATIENCE:
                raise ServiceFailed(f"the service does not start ({_ending(code)})", self.tail())
            self._tell(f"the service {_ending(code)}; starting it again")

    def kill(self) -> int:
        os.kill(self.pid, signal.SIGKILL)
        return self.pid

    def tail(self, lines: int = 15) -> list[str]:
        try:
            return self._workdir.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    async def _live(self) -> int:
        began = time.monotonic()
        process = await self._launch()
        ended, here = asyncio.ensure_future(process.wait()), asyncio.ensure_future(self._connected())
        try:
            await asyncio.wait({ended, here}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._tell(f"the service is up (process {self.pid}) after {time.monotonic() - began:.1f} s")
                self.ready.set()
            return await ended
        finally:
            self.ready.clear()
            here.cancel()
            ended.cancel()
            await _stop(process)
            self._workdir.process.unlink(missing_ok=True)

    async def _launch(self) -> asyncio.subprocess.Process:
        with self._workdir.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                cwd=self._workdir.path,  # no .env of the caller's folder is read
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demo, which stops the service in order
            )
        self.pid = process.pid
        self._workdir.process.write_text(f"{process.pid} {_start_time(process.pid)}\n")
        return process


def environment(
    caller: Mapping[str, str], settings: Mapping[str, str], modules: Path | None
) -> dict[str, str]:
    """The caller's, without our settings, plus `settings`; `modules`: the caller's own agents."""
    kept = {
        name: value
        for name, value in caller.items()
        if not name.startswith(OURS) and name.upper() not in PROXIES
    }
    paths = [str(modules) if modules else "", caller.get("PYTHONPATH", "")]
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1", **settings}


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _kill_leftover(note: Path) -> None:
    """A killed demo's service would use the new database."""
    try:
        pid, start_time = note.read_text().split()
        if _start_time(int(pid)) == start_time:
            psutil.Process(int(pid)).kill()
    except (OSError, ValueError, psutil.Error):
        pass
    note.unlink(missing_ok=True)


def _start_time(pid: int) -> str:
    """A process id alone may have been reused."""
    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return "gone"


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
