"""Row 11: rows 2 and 3 with flushes as slow as on a typical cloud disk."""

from __future__ import annotations

from benchmarks.ground import slow_ground
from benchmarks.report import Goal, Line, compare
from benchmarks.setting import VOTERS, Setting
from benchmarks.votes import compared

FLUSH_MS = 1.5


async def row_11(setting: Setting) -> list[Line]:
    """Both sides on the same slow server, with 1.5 ms added to fdatasync."""
    with slow_ground(FLUSH_MS) as ground:
        if ground is None:
            return [
                Line(11, f"with a flush of {FLUSH_MS} ms", "not measured: no C compiler (cc) on this machine")
            ]
        flush = f"flush + {FLUSH_MS} ms (a commit: {ground.flush_ms():.1f} ms)"
        times, peer_times = await compared(setting, ground, "latency")
        rates, peer_rates = await compared(setting, ground, "throughput")
    return [
        compare(
            11, f"vote -> tool, {flush}, p50", "ms", times, ("DBOS recv", peer_times), goal=Goal.at_most(0.95)
        ),
        compare(
            11,
            f"decided and executed, {VOTERS} voters, {flush}",
            "/s",
            rates,
            ("DBOS recv", peer_rates),
            goal=Goal.at_least(1.5),
        ),
    ]
