"""`python -m benchmarks.idle [--quick]`: what a service costs that has nothing to do, by role.

Processes with two example agents share a database: seconds and CPU time until `/readyz` answers 200, then CPU time and
memory while idle, then the memory of each program that waits for a decision.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from benchmarks import payments, report
from benchmarks.clicks import answer_of, compile_all, free_port, service_process
from benchmarks.counted import seconds
from benchmarks.ground import Ground, ground
from benchmarks.report import Line
from benchmarks.side import BOT_TOKEN
from benchmarks.stats import median
from benchmarks.told import Program, opened_questions
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.workspace import demo_workspace

AGENTS = "signoff_demo.examples.refunds,signoff_demo.examples.data_manager"
READY_PATIENCE = 60.0
BEGIN_AT_ONCE = 8
KB, MB = 2**10, 2**20


@dataclass(frozen=True)
class Kind:
    """Goals: megabytes resident after minutes of idling."""

    name: str
    roles: str
    most: int


KINDS = (
    Kind("web", "web", 120),
    Kind("worker", "worker", 110),
    Kind("all roles", "web,worker,scheduler", 130),
)
READY, WAITER, CPU = 1.5, 20.0, 0.8
"""Further goals: seconds until ready, kilobytes for each waiting program, per cent of a core while idle."""


@dataclass(frozen=True)
class IdleSize:
    starts: int
    settle: float
    window: float
    waiters: int


FULL = IdleSize(starts=5, settle=120, window=60, waiters=2_000)
QUICK = IdleSize(starts=3, settle=10, window=20, waiters=500)


@dataclass
class Found:
    """Of one kind of process; memory in bytes, as /proc/PID/smaps_rollup has it."""

    ready: list[float] = field(default_factory=list)
    ready_cpu: list[float] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    cpu_percent: float = 0.0
    switches: float = 0.0
    threads: int = 0


@dataclass(frozen=True)
class Running:
    pid: int
    port: int
    ready: float
    ready_cpu: float


@asynccontextmanager
async def _running(home: Path, url: str, slack: SlackSandbox, roles: str) -> AsyncIterator[Running]:
    port, health = free_port(), free_port()
    environment = {
        "DATABASE_URL": url,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.api_url,
        "SIGNOFF_AGENTS": AGENTS,
        "SIGNOFF_CHECKPOINTS": str(home / "checkpoints.toml"),
        "SIGNOFF_PORT": str(port),
        "SIGNOFF_HEALTH_PORT": str(health),
        "SIGNOFF_DRAIN_SECONDS": "1",
        "SIGNOFF_ROLES": roles,
    }
    begun = time.monotonic()
    async with service_process(environment, home / f"idle-{roles}.log") as process:
        await _until_ready(health)
        yield Running(process.pid, port, time.monotonic() - begun, seconds(psutil.Process(process.pid)))


async def _until_ready(port: int) -> None:
    async with asyncio.timeout(READY_PATIENCE):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: here\r\n\r\n")
                status, _ = await answer_of(reader)
                writer.close()
            except (OSError, asyncio.IncompleteReadError):
                status = 0
            if status == 200:
                return
            await asyncio.sleep(0.01)


def memory(pid: int) -> dict[str, int]:
    """Linux only."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {
        name.lower(): int(size) * KB for name, size in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)
    }


async def _starts(home: Path, url: str, slack: SlackSandbox, kind: Kind, times: int) -> Found:
    found = Found()
    for _ in range(times):
        async with _running(home, url, slack, kind.roles) as one:
            found.ready.append(one.ready)
            found.ready_cpu.append(one.ready_cpu)
    return found


async def _idle(processes: Mapping[str, Running], found: Mapping[str, Found], size: IdleSize) -> None:
    await asyncio.sleep(size.settle)
    watched = {name: psutil.Process(each.pid) for name, each in processes.items()}
    before = {name: (seconds(each), _switches(each)) for name, each in watched.items()}
    begun = time.monotonic()
    await asyncio.sleep(size.window)
    passed = time.monotonic() - begun
    for name, each in watched.items():
        used, switched = before[name]
        found[name].cpu_percent = 100 * (seconds(each) - used) / passed
        found[name].switches = (_switches(each) - switched) / passed
        found[name].memory = memory(each.pid)
        found[name].threads = each.num_threads()


def _switches(process: psutil.Process) -> int:
    """Times that it went to sleep: each is a wake-up before."""
    return int(process.num_ctx_switches().voluntary)


async def _each_waiter(url: str, opens: Running, waits: Running, count: int) -> float:
    """Bytes of resident memory for each program: another process has stored the questions."""
    async with Database(url) as db:
        key = await api_keys.create(db, "asker", [Scope.REQUEST], by="bench", per_minute=1_000_000)
    warm = count // 10
    requests = await opened_questions(Program(opens.port, key), count + warm)
    program, room = Program(waits.port, key), asyncio.Semaphore(BEGIN_AT_ONCE)
    waiting = await _begin(program, requests[:warm], room)
    empty = memory(waits.pid)["rss"]
    waiting += await _begin(program, requests[warm:], room)
    full = memory(waits.pid)["rss"]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return (full - empty) / count


async def _begin(
    program: Program, requests: Sequence[str], room: asyncio.Semaphore
) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(program.wait(each, room)) for each in requests]
    await asyncio.sleep(3 + len(requests) / 80)
    for task in tasks:
        if task.done():
            task.result()
            raise RuntimeError("a wait has ended early")
    return tasks


async def measure(floor: Ground, slack: SlackSandbox, size: IdleSize) -> tuple[dict[str, Found], float]:
    url, home = floor.fresh("bench_idle"), floor.home
    (home / "checkpoints.toml").write_text(payments.CHECKPOINTS)
    await asyncio.to_thread(compile_all)
    found = {kind.name: await _starts(home, url, slack, kind, size.starts) for kind in KINDS}
    async with AsyncExitStack() as stack:
        processes = {
            kind.name: await stack.enter_async_context(_running(home, url, slack, kind.roles))
            for kind in KINDS
        }
        await _idle(processes, found, size)
        each = await _each_waiter(url, processes["all roles"], processes["web"], size.waiters)
    return found, each


def lines(found: Mapping[str, Found], each: float, size: IdleSize) -> list[Line]:
    made = []
    for row, kind in enumerate(KINDS, 1):
        of = found[kind.name]
        resident, own = of.memory["rss"] / MB, of.memory["pss"] / MB
        ready, cpu = median(of.ready), median(of.ready_cpu)
        made += [
            Line(
                row,
                f"{kind.name}: memory, idle",
                f"{resident:.1f} MB resident, {own:.1f} MB its share; {of.threads} threads",
                goal=f"<= {kind.most} MB",
                met=resident <= kind.most,
            ),
            Line(
                row,
                f"{kind.name}: CPU, idle",
                f"{of.cpu_percent:.2f} % of a core, {of.switches:.1f} wake-ups a second",
                goal=f"<= {CPU} %",
                met=of.cpu_percent <= CPU,
            ),
            Line(
                row,
                f"{kind.name}: start -> ready",
                f"{ready:.2f} s, {cpu:.2f} s of CPU",
                goal=f"<= {READY} s",
                met=ready <= READY,
                samples={"ready": [of.ready], "cpu": [of.ready_cpu]},
            ),
        ]
    each /= KB
    words = f"each of {size.waiters:,} waiting programs"
    return [*made, Line(4, words, f"{each:.1f} KB", goal=f"<= {WAITER:.0f} KB", met=each <= WAITER)]


async def run(size: IdleSize, command: str) -> None:
    load = os.getloadavg()[0]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ground() as floor:
        async with SlackSandbox(
            demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False
        ) as slack:
            found, each = await measure(floor, slack, size)
        made = lines(found, each, size)
        content: dict[str, Any] = {
            "command": command,
            "machine": report.machine()
            | {"load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)},
            "server": floor.about(),
            "size": asdict(size),
            "found": {name: asdict(one) for name, one in found.items()},
            "each_waiter": each,
            "lines": report.as_json(made),
        }
    path = report.save(floor.home, "idle", content)
    machine = content["machine"]
    report.show(
        made, [f"load {machine['load_before']} before, {machine['load_after']} after", f"all: {path}"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter idling, and fewer waiting programs")
    options = parser.parse_args()
    command = " ".join(["python -m benchmarks.idle", *["--quick"] * options.quick])
    asyncio.run(run(QUICK if options.quick else FULL, command))


if __name__ == "__main__":
    main()
