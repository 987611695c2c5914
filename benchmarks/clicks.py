"""Signed clicks over HTTP to the real service, in one process or several.

The clock starts when the first byte of the click is written here and stops when the tool's function starts:
CLOCK_MONOTONIC is the same for all processes of a machine. Slack and the model provider are the sandbox, in this
process; people are looked up there and then cached for a minute, as in real use.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import payments
from benchmarks.waiting import CHANNEL, GRACE, TEAM, Row, Waiting
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.model import ScriptedModel
from signoff_demo.sandbox.signed_http import SignedHttp, SignedRequest
from slackbot.cards import ACTION_APPROVE

PATIENCE = 30.0
"""Seconds after which a click without a tool start fails the benchmark."""


class Sender:
    def __init__(self, slack: SlackSandbox, port: int) -> None:
        self._slack = slack
        self.port = port
        self.signing = SignedHttp(f"http://127.0.0.1:{port}/slack/events", slack.signing_secret)

    async def paced(self, requests: Sequence[Row], per_second: float) -> list[tuple[int, float]]:
        """The status of each click's response, and milliseconds from the time the click was due. Slow clicks do not
        delay later ones. Only 200 is an acknowledgement.
        """
        begun = time.monotonic()

        async def one(number: int, row: Row) -> tuple[int, float]:
            due = begun + number / per_second
            signed = self._signed(Waiting(*row))
            await asyncio.sleep(due - time.monotonic())
            status, _ = await self.send(signed)
            return status, (time.monotonic() - due) * 1e3

        return list(await asyncio.gather(*(one(number, row) for number, row in enumerate(requests))))

    async def send(self, signed: SignedRequest) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(_wire(signed))
        async with asyncio.timeout(PATIENCE):
            answered = await answer_of(reader)
        writer.close()
        return answered

    def _signed(self, card: Waiting) -> SignedRequest:
        message = self._slack.workspace.messages.get(CHANNEL, card.ts)
        return self.signing.interactive(_payload(card, message))


class Clicker(Sender):
    """``ready`` is the start-up time in seconds. ``again`` counts clicks that the service was too busy to store; their
    time runs until the tool starts.
    """

    def __init__(
        self,
        slack: SlackSandbox,
        ports: Sequence[int],
        marks: socket.socket,
        pids: Sequence[int],
        *,
        ready: float,
    ) -> None:
        super().__init__(slack, ports[0])
        self.ready = ready
        self.pid = pids[0]
        self.pids = pids
        self._ports = ports
        self.again = 0
        self._started: dict[int, asyncio.Future[int]] = {}
        self._marks = marks
        asyncio.get_running_loop().add_reader(marks, self._hear)

    async def press(self, requests: Sequence[Row], *, at_once: int, apart: float = 0.0) -> list[float]:
        """Milliseconds from each click to its tool's start; ``apart``: seconds between a start and the next click.
        Clicks are spread over several processes.
        """
        waiting = iter(requests)
        taken: list[float] = []

        async def hand(port: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for row in waiting:
                if reader.at_eof():  # a slow tool: the server closes idle connections
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                taken.append(await self._click(Waiting(*row), reader, writer))
                await asyncio.sleep(apart)
            writer.close()

        await asyncio.gather(*(hand(self._ports[n % len(self._ports)]) for n in range(at_once)))
        return taken

    async def started(self, requests: Sequence[Row]) -> None:
        async with asyncio.timeout(10 * PATIENCE):
            for row in requests:
                await self._start_of(Waiting(*row).order)

    async def _click(
        self, card: Waiting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> float:
        wire = _wire(self._signed(card))
        begun = time.monotonic_ns()
        writer.write(wire)
        async with asyncio.timeout(PATIENCE):
            while (status := (await answer_of(reader))[0]) == 500:  # not stored in time: people press again
                self.again += 1
                writer.write(wire)
            if status != 200:
                raise RuntimeError(f"the click on order {card.order} was answered {status}")
            started = await self._start_of(card.order)
        return (started - begun) / 1e6

    def _start_of(self, order: int) -> asyncio.Future[int]:
        return self._started.setdefault(order, asyncio.get_running_loop().create_future())

    def _hear(self) -> None:
        order, at = self._marks.recv(100).split()
        self._start_of(int(order)).set_result(int(at))


def _payload(card: Waiting, message: dict[str, Any]) -> dict[str, Any]:
    (button,) = [
        element
        for block in message["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
        if element["action_id"] == ACTION_APPROVE
    ]
    return {
        "type": "block_actions",
        "user": {"id": GRACE.user_id, "username": "grace", "name": "grace", "team_id": TEAM},
        "api_app_id": "A0SIGNOFF",
        "token": "sandbox-verification",
        "container": {
            "type": "message",
            "message_ts": card.ts,
            "channel_id": CHANNEL,
            "is_ephemeral": False,
        },
        "trigger_id": f"{card.order}.1.trigger",
        "team": {"id": TEAM, "domain": "sandbox"},
        "enterprise": None,
        "is_enterprise_install": False,
        "channel": {"id": CHANNEL, "name": "refund-reviews"},
        "message": message,
        "state": {"values": {}},
        "response_url": "http://127.0.0.1:9/nobody",
        "actions": [{**button, "action_ts": card.ts}],
    }


def _wire(signed: SignedRequest) -> bytes:
    head = {"Host": "127.0.0.1", "Content-Length": str(len(signed.body)), **signed.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST /slack/events HTTP/1.1\r\n{lines}\r\n".encode() + signed.body


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(
        (line.split(":")[1] for line in head.splitlines() if line.startswith("content-length")), "0"
    )
    return int(head.split()[1]), await reader.readexactly(int(length))


ALL = ("web,worker,scheduler",)


@asynccontextmanager
async def serving(
    url: str, slack: SlackSandbox, home: Path, roles: Sequence[str] = ALL
) -> AsyncIterator[Clicker]:
    """One process per element of ``roles``, with a clicker for those with HTTP."""
    (home / "checkpoints.toml").write_text(payments.CHECKPOINTS)
    async with AsyncExitStack() as stack:
        marks = stack.enter_context(_listening(home / f"marks.{os.getpid()}"))
        model = await stack.enter_async_context(ScriptedModel())
        await asyncio.to_thread(compile_all)
        begun = time.monotonic()
        ports, pids = [], []
        for number, own in enumerate(roles):
            port = free_port()
            environment = {
                "DATABASE_URL": url,
                "SLACK_BOT_TOKEN": slack.bot_token,
                "SLACK_SIGNING_SECRET": slack.signing_secret,
                "SLACK_API_URL": slack.api_url,
                "OPENAI_BASE_URL": model.base_url,
                "SIGNOFF_AGENTS": "benchmarks.payments",
                "SIGNOFF_CHECKPOINTS": str(home / "checkpoints.toml"),
                "SIGNOFF_PORT": str(port),
                "SIGNOFF_DRAIN_SECONDS": "3",
                "SIGNOFF_ROLES": own,
                payments.MARKS: marks.getsockname(),
            }
            log = home / f"service-{number}.log"
            process = await stack.enter_async_context(service_process(environment, log))
            pids.append(process.pid)
            if "web" in own:
                await _ready(port)
                ports.append(port)
        clicker = Clicker(slack, ports, marks, pids, ready=time.monotonic() - begun)
        yield clicker
        if clicker.again:
            print(f"{clicker.again} clicks were not recorded in time, and pressed again", flush=True)
        asyncio.get_running_loop().remove_reader(marks)


@asynccontextmanager
async def service_process(
    environment: dict[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    without = ("SLACK_", "OPENAI_", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slackbot", "serve"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=inherited | environment,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()


@cache
def compile_all() -> None:
    """Installed packages already have their bytecode."""
    code = "import benchmarks.payments, slackbot.app, slackbot.cli.service"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


async def _ready(port: int) -> None:
    """The service returns 503 until it has identified itself with Slack."""
    async with asyncio.timeout(4 * PATIENCE):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.write(b"POST /slack/events HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n")
            status, _ = await answer_of(reader)
            writer.close()
            if status == 401:
                return
            await asyncio.sleep(0.02)


@contextmanager
def _listening(place: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as marks:
        marks.bind(str(place))
        marks.setblocking(False)
        try:
            yield marks
        finally:
            place.unlink()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
