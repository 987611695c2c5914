"""Resources for a number of decisions a minute, computed from the cost of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PER_MINUTE = (10, 1_000, 100_000)
DAY = 24 * 60
COMFORT = 0.6
"""Planned utilisation of a core; above it, waiting grows faster than work."""


def needs(result: dict[str, Any]) -> list[list[str]]:
    opening, deciding = result["opening"], result["deciding"]
    kept = sum(each["heap"] + each["indexes"] for each in result["bytes"].values())
    wal = opening["wal"] + deciding["wal"]
    server = opening["server_ms"] + deciding["server_ms"]
    commits = opening["commits"] + deciding["commits"]
    return [
        _line("decisions a second", lambda rate: rate / 60),
        _line("commits a second", lambda rate: rate / 60 * commits),
        _line("WAL, MB/s", lambda rate: rate / 60 * wal / 1e6),
        _line("growth of the tables, GB a day", lambda rate: rate * DAY * kept / 1e9),
        _line("PostgreSQL, cores at 60 %", lambda rate: rate / 60 * server / 1e3 / COMFORT),
        _line("service, cores at 60 %", lambda rate: rate / 60 * deciding["python_ms"] / 1e3 / COMFORT),
    ]


def _line(what: str, of: Callable[[int], float]) -> list[str]:
    return [what, *(_number(of(rate)) for rate in PER_MINUTE)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"
