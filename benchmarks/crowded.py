from __future__ import annotations

import time

from benchmarks.look import WARM, Look, look
from benchmarks.multitude import multiply, staff
from benchmarks.report import Line
from benchmarks.setting import Setting
from benchmarks.stats import median, p99, ratio
from benchmarks.waiting import Waiting, seed

READS = {
    "inbox": ("inbox page", 20.0),
    "history": ("history page", None),
    "todo": ("/approvals: what waits for me", 20.0),
    "mine": ("/approvals mine", 20.0),
    "home": ("App Home opened -> published", None),
}


async def row_5(setting: Setting) -> list[Line]:
    """One database, measured with no waiting requests and with all."""
    staff(setting.slack.workspace)
    url = setting.ground.fresh("bench_crowd")
    first, *others = await seed(url, setting.slack, 2 + 2 * (WARM + setting.size.clicks))
    rows = iter(others)
    none = await look(setting, url, rows)
    begun = time.monotonic()
    await multiply(url, Waiting(*first).request_id, setting.size.waiting)
    print(f"row 5: {setting.size.waiting:,} copies made in {time.monotonic() - begun:.0f} s", flush=True)
    return compared(f"{setting.size.waiting:,} waiting", await look(setting, url, rows), none)


def compared(many: str, full: Look, none: Look, row: int = 5) -> list[Line]:
    """The goals for many waiting requests, against none."""
    slower = ratio([full.click], [none.click], median)
    return [
        _number(
            row, f"memory, {many}", "MB", full.memory, none.memory, 1.05 * none.memory, "as with none (+ 5 %)"
        ),
        _number(row, "idle: service", "% of a core", full.idle, none.idle, 1.5, "<= 1.5 %"),
        _number(row, "idle: PostgreSQL", "% of a core", full.database, none.database, 1.5, "<= 1.5 %"),
        _number(row, "ready after a start", "s", full.ready, none.ready, 3.0, "<= 3 s"),
        *(_read(row, name, full, none) for name in READS),
        Line(
            row,
            f"click -> tool ({len(full.click)}), p50",
            _middle(full.click),
            f"none: {_middle(none.click)}",
            slower,
            "<= 1.3 x none",
            slower.value <= 1.3,
            {"full": [full.click], "none": [none.click]},
        ),
    ]


def _number(row: int, what: str, unit: str, full: float, none: float, limit: float, goal: str) -> Line:
    return Line(
        row, what, f"{full:.1f} {unit}", f"none: {none:.1f} {unit}", goal=goal, met=full <= limit,
        samples={"full": [[full]], "none": [[none]]},
    )  # fmt: skip


def _read(row: int, name: str, full: Look, none: Look) -> Line:
    what, limit = READS[name]
    many, few = getattr(full, name), getattr(none, name)
    return Line(
        row,
        f"{what} ({len(many)}), p50",
        _middle(many),
        f"none: {_middle(few)}",
        ratio([many], [few], median),
        f"<= {limit:.0f} ms" if limit else "",
        median(many) <= limit if limit else None,
        {"full": [many], "none": [few]},
    )


def _middle(samples: list[float]) -> str:
    return f"{median(samples):.1f} ms (p99 {p99(samples):.1f})"
