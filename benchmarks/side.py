"""One side of a comparison, as a process: reads commands and prints results, one line of JSON each."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

Command = Callable[..., Awaitable[Any]]

BOT_TOKEN = "xoxb-benchmarks"


class Side:
    def __init__(self, module: str, log: Path, *arguments: str, **environment: str) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._log = log
        self._environment = {**os.environ, **environment}
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment,
                limit=2**24,
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()  # the process then exits
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process.pid

    async def ask(self, command: str, **arguments: Any) -> Any:
        """Raises RuntimeError if the process exits instead."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("not started")
        process.stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._command[2]} ended; see {self._log}")
        return json.loads(line)


async def serve(commands: Mapping[str, Command]) -> None:
    """Serve standard input until it ends. All other output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asking = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asking), sys.stdin)
    while line := await asking.readline():
        asked = json.loads(line)
        result = await commands[asked.pop("do")](**asked)
        answers.write(json.dumps(result) + "\n")
        answers.flush()
