from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.stats import Ratio, Rounds, Statistic, median, p99, pooled, ratio
from signoff.canonical import canonical_bytes

LIBRARIES = ("sqlalchemy", "psycopg", "uvloop", "slack-bolt", "dbos")


@dataclass(frozen=True)
class Line:
    """``ratio`` is ours over the peer's; ``met`` is None without a goal."""

    row: int
    what: str
    measured: str
    peer: str = ""
    ratio: Ratio | None = None
    goal: str = ""
    met: bool | None = None
    samples: dict[str, Rounds] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    text: str
    holds: Callable[[Ratio], bool]

    @classmethod
    def surely_at_most(cls, limit: float) -> Goal:
        """The whole interval is at most the limit."""
        return cls(f"upper end <= {limit} x", lambda found: found.high <= limit)

    @classmethod
    def at_most(cls, limit: float) -> Goal:
        return cls(f"<= {limit} x", lambda found: found.value <= limit)

    @classmethod
    def at_least(cls, limit: float) -> Goal:
        return cls(f">= {limit} x", lambda found: found.value >= limit)


def compare(
    row: int,
    what: str,
    unit: str,
    ours: Rounds,
    peer: tuple[str, Rounds],
    of: Statistic = median,
    goal: Goal | None = None,
) -> Line:
    name, theirs = peer
    found = ratio(ours, theirs, of)
    return Line(
        row,
        what,
        f"{_number(of(pooled(ours)))} {unit}",
        f"{name}: {_number(of(pooled(theirs)))} {unit}",
        found,
        goal.text if goal else "",
        goal.holds(found) if goal else None,
        {"ours": ours, name: theirs},
    )


def latency(
    row: int, what: str, ours: Rounds, peer: tuple[str, Rounds], middle: Goal | None, late: Goal | None
) -> list[Line]:
    """In milliseconds."""
    return [
        compare(row, f"{what}, p50", "ms", ours, peer, median, middle),
        compare(row, f"{what}, p99", "ms", ours, peer, p99, late),
    ]


def within(row: int, what: str, ours: Rounds, limit: float) -> Line:
    every = pooled(ours)
    return Line(
        row,
        f"{what}, p50",
        f"{median(every):.1f} ms (p99 {p99(every):.1f} ms)",
        goal=f"<= {limit:.0f} ms",
        met=median(every) <= limit,
        samples={"ours": ours},
    )


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def show(lines: Sequence[Line], notes: Sequence[str]) -> None:
    console = Console(width=max(140, Console().width))
    table = Table(title="ratio: ours / peer, with 95 % interval", title_justify="left")
    for name in ("row", "what", "measured", "peer", "ratio", "goal", "met"):
        table.add_column(name)
    for line in lines:
        met = "" if line.met is None else "[green]yes[/]" if line.met else "[red]no[/]"
        found = str(line.ratio) if line.ratio else ""
        table.add_row(str(line.row), line.what, line.measured, line.peer, found, line.goal, met)
    console.print(table)
    for note in notes:
        console.print(f"  {note}", style="dim", highlight=False)


def machine() -> dict[str, Any]:
    """Leave out the machine's name."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": _commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "calibration_ms": calibration(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def calibration() -> float:
    """Milliseconds for a fixed piece of Python like the service's own: JSON, canonical bytes and their hashes.

    The best of five; the same code takes twice as long on some machines as on others.
    """
    request = {
        "tool": "refund",
        "arguments": {f"item {n}": {"cents": n, "why": "broken" * 8} for n in range(40)},
    }
    taken = []
    for _ in range(5):
        begun, chain = time.perf_counter(), b""
        for _ in range(100):
            chain = sha256(chain + canonical_bytes(json.loads(json.dumps(request)))).digest()
        taken.append(time.perf_counter() - begun)
    return round(min(taken) * 1e3, 1)


def save(folder: Path, name: str, content: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def as_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    return [asdict(line) for line in lines]


def _commit() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, "unknown")
