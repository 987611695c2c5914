"""The peer: DBOS workflows that wait in `recv`. Run as `python -m benchmarks.dbos_side URL [sender]`.

Coroutine workflows in the sending process, on uvloop as on our side, are the fastest way to use DBOS here. With
`sender` it is the other process of row 10, which runs no workflow.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time

import uvloop
from dbos import DBOS, DBOSClient, DBOSConfig, SetWorkflowID

from benchmarks.side import serve

_numbers = itertools.count(1)
_returned: dict[str, asyncio.Future[int]] = {}


@DBOS.workflow()
async def wait_for_decision() -> str:
    decision = await DBOS.recv_async("decision", timeout_seconds=3600)
    at = time.monotonic_ns()
    waiting = _returned[str(DBOS.workflow_id)]
    waiting.get_loop().call_soon_threadsafe(waiting.set_result, at)
    return str(decision)


async def park(count: int) -> list[str]:
    names = [f"run-{next(_numbers)}" for _ in range(count)]
    for name in names:
        _returned[name] = asyncio.get_running_loop().create_future()
        with SetWorkflowID(name):
            await DBOS.start_workflow_async(wait_for_decision)
    while not await asyncio.to_thread(_all_waiting, names):
        await asyncio.sleep(0.05)
    return names


def _all_waiting(names: list[str]) -> bool:
    """A workflow records its time-out as the last step before waiting."""
    return all(
        any(step["function_name"] == "DBOS.sleep" for step in DBOS.list_workflow_steps(name))
        for name in reversed(names)
    )


async def latency(count: int, apart: float) -> list[float]:
    """Milliseconds from `send` to the return of `recv`."""
    taken = []
    for name in await park(count):
        begun = time.monotonic_ns()
        await DBOS.send_async(name, "approve", "decision")
        taken.append((await _returned[name] - begun) / 1e6)
        await asyncio.sleep(apart)
    return taken


async def throughput(count: int, at_once: int) -> float:
    """Per second, until the last `recv` returns."""
    names = await park(count)
    waiting = iter(names)
    begun = time.monotonic()

    async def sender() -> None:
        for name in waiting:
            await DBOS.send_async(name, "approve", "decision")

    await asyncio.gather(*(sender() for _ in range(at_once)))
    await asyncio.gather(*(_returned[name] for name in names))
    return count / (time.monotonic() - begun)


async def returned(name: str) -> int:
    return await _returned[name]


async def send_only(url: str) -> None:
    client = DBOSClient(system_database_url=url)

    async def send(name: str) -> int:
        begun = time.monotonic_ns()
        await client.send_async(name, "approve", "decision")
        return begun

    await serve({"send": send})
    client.destroy()


async def main(url: str) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "WARNING",
        "run_admin_server": False,  # type: ignore[typeddict-unknown-key, unused-ignore]  # with and without dbos installed
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        await serve({"latency": latency, "throughput": throughput, "park": park, "returned": returned})
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    uvloop.run(send_only(sys.argv[1]) if sys.argv[2:] == ["sender"] else main(sys.argv[1]))
