"""`python -m benchmarks [--quick] [--row N] …`: measure, print a table, save every sample as JSON."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace

from benchmarks import acknowledged, cost, crowded, deadlines, edge, flush, judging, report, told, votes
from benchmarks.ground import ground
from benchmarks.report import Line
from benchmarks.setting import FULL, QUICK, Setting, Size
from benchmarks.side import BOT_TOKEN
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.workspace import demo_workspace

ROWS: dict[int, Callable[[Setting], Awaitable[list[Line]]]] = {
    1: edge.row_1,
    2: votes.row_2,
    3: votes.row_3,
    4: votes.row_4,
    5: crowded.row_5,
    6: deadlines.row_6,
    7: acknowledged.row_7,
    8: told.row_8,
    9: votes.row_9,
    10: edge.row_10,
    11: flush.row_11,
    12: cost.row_12,
    13: edge.row_13,
    14: judging.row_14,
}


async def measured(row: int, setting: Setting) -> list[Line]:
    """A failing row does not affect the others."""
    try:
        return await ROWS[row](setting)
    except Exception as error:  # on any error: earlier rows may have taken hours
        print("".join(traceback.format_exception(error)), file=sys.stderr)
        return [
            Line(row, ROWS[row].__doc__ or "", f"not measured: {error or type(error).__name__}", met=False)
        ]


async def run(size: Size, rows: list[int], command: str) -> None:
    """A signal ends the run like an error, with everything stopped."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    begun, load = time.monotonic(), os.getloadavg()[0]
    lines: list[Line] = []
    with ground() as floor:
        async with SlackSandbox(
            demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False
        ) as slack:
            setting = Setting(floor, slack, size)
            for row in rows:
                start = time.monotonic()
                lines += await measured(row, setting)
                print(f"row {row}: {time.monotonic() - start:.0f} s", flush=True)
        about = floor.about()
    seconds = round(time.monotonic() - begun)
    content = {
        "command": command,
        "machine": report.machine() | {"load_before": round(load, 2)},
        "server": about,
        "size": vars(size),
        "seconds": seconds,
        "lines": report.as_json(lines),
    }
    path = report.save(floor.home, "rows", content)
    report.show(
        lines,
        [
            f"{size.rounds} rounds each, in turns with the peer, {seconds} s; a flush takes {about['flush_ms']} ms.",
            "Interval: bootstrap over pairs of rounds. DBOS receives a message; we judge, record, execute and tell.",
            f"every sample: {path}",
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds, for a first look")
    parser.add_argument(
        "--row", type=int, choices=sorted(ROWS), action="append", help="only this row; may be repeated"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds that take turns with the peer's")
    parser.add_argument("--waiting", type=int, metavar="N", help="requests that wait in row 5")
    parser.add_argument("--waiters", type=int, metavar="N", help="programs that wait in row 8")
    parser.add_argument("--due", type=int, metavar="N", help="requests that are due at once in row 6")
    options = parser.parse_args()
    chosen = {name: getattr(options, name) for name in ("rounds", "waiting", "waiters", "due")}
    size = replace(QUICK if options.quick else FULL, **{name: n for name, n in chosen.items() if n})
    rows = options.row or list(ROWS)
    said = ["--quick"] * options.quick + [f"--{name} {n}" for name, n in chosen.items() if n]
    said += [f"--row {row}" for row in options.row or ()]
    asyncio.run(run(size, rows, " ".join(["python -m benchmarks", *said])))


if __name__ == "__main__":
    main()
