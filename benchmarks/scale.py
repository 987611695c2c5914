"""`python -m benchmarks.scale`: database size and CPU time per decision.

The size is what stays: after the work, the hourly sweeps delete sent messages at once instead of after a week.
From these, `benchmarks.publish` computes the needs of 10, 1,000 and 100,000 decisions a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from dataclasses import asdict, astuple
from typing import Any

from agent.database.pools import Database
from agent.usecases import forgetting
from benchmarks import report
from benchmarks.counted import Spent, spent, statements
from benchmarks.ground import Ground, ground, owner, settle, take_back
from benchmarks.setting import VOTERS
from benchmarks.side import BOT_TOKEN, Side
from benchmarks.waiting import Row, ask
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.workspace import demo_workspace

NAME = "bench_scale"
DECISIONS = 2_000
COUNTED = 100
_SIZES = """
SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid) FROM pg_class AS c
WHERE c.relkind = 'r' AND c.relnamespace = 'signoff'::regnamespace
"""


async def measure(floor: Ground, slack: SlackSandbox, count: int) -> dict[str, Any]:
    """Open this many requests, decide and execute them with eight voters, deliver messages; results per decision."""
    url = floor.fresh(NAME)
    empty = await asyncio.to_thread(_sizes, url)
    start = await asyncio.to_thread(spent, floor, NAME)
    made = await ask(url, slack, count + 2 * COUNTED)
    opened = await asyncio.to_thread(spent, floor, NAME) - start
    await asyncio.to_thread(settle, url, [(each.ts, each.nonce) for each in made])
    rows: list[Row] = [list(astuple(each)) for each in made]
    async with Side("benchmarks.ours", floor.home / "scale.log", url, slack.api_url) as side:
        await side.ask("throughput", requests=rows[:COUNTED], at_once=VOTERS)
        with statements(floor) as sent:
            await side.ask("throughput", requests=rows[COUNTED : 2 * COUNTED], at_once=VOTERS)
        before, python = await asyncio.to_thread(spent, floor, NAME), await side.ask("cpu")
        begun = time.monotonic()
        await side.ask("throughput", requests=rows[2 * COUNTED :], at_once=VOTERS)
        seconds = time.monotonic() - begun
        await side.ask("idle")
        python = await side.ask("cpu") - python
        decided = await asyncio.to_thread(spent, floor, NAME) - before
    take_back(url)
    await _forget(url)
    full = await asyncio.to_thread(_sizes, url)
    of_each = {
        name: {"heap": (heap - empty[name][0]) / len(made), "indexes": (index - empty[name][1]) / len(made)}
        for name, (heap, index) in full.items()
    }
    last = len(made) - 2 * COUNTED
    return {
        "decisions": len(made),
        "bytes": {name: each for name, each in of_each.items() if each["heap"] + each["indexes"] > 1},
        "opening": _each(opened, len(made)),
        "deciding": _each(decided, last)
        | {"python_ms": python * 1e3 / last, "per_second": last / seconds}
        | {"statements": sum(sent.values()) / COUNTED},
    }


def _each(total: Spent, count: int) -> dict[str, float]:
    found = {name: value / count for name, value in asdict(total).items()}
    return found | {"server_ms": found.pop("server_cpu") * 1e3}


async def _forget(url: str) -> None:
    """Delete what the sweeps of a running service delete when it is a week old."""
    async with Database(url) as db:
        await forgetting.messages(db, days=0)


def _sizes(url: str) -> dict[str, tuple[int, int]]:
    """Bytes of each table and its indexes, without what VACUUM can free."""
    with owner(url) as connection:
        connection.execute("VACUUM FULL")
        return {str(name): (int(heap), int(index)) for name, heap, index in connection.execute(_SIZES)}


async def run(count: int, command: str) -> None:
    load = os.getloadavg()[0]
    with ground() as floor:
        async with SlackSandbox(
            demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False
        ) as slack:
            content = {
                "command": command,
                "machine": report.machine() | {"load_before": round(load, 2)},
                "server": floor.about(),
                **await measure(floor, slack, count),
            }
        path = report.save(floor.home, "scale", content)
    for part in ("opening", "deciding"):
        print(part, {name: round(value, 2) for name, value in content[part].items()})
    print("bytes", round(sum(each["heap"] + each["indexes"] for each in content["bytes"].values())))
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--decisions", type=int, default=DECISIONS, metavar="N")
    options = parser.parse_args()
    asyncio.run(run(options.decisions, f"python -m benchmarks.scale --decisions {options.decisions}"))


if __name__ == "__main__":
    main()
