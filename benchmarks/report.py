"""What was reached: a table for people, and the same with every sample as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

LIBRARIES = ("sqlalchemy", "psycopg", "procrastinate", "slack-bolt", "dbos")


@dataclass(frozen=True)
class Line:
    """One goal. ``ratio``: how many times better than the peer; ``met`` is None where nothing was promised."""

    row: int
    what: str
    goal: str
    measured: str
    peer: str = ""
    ratio: float | None = None
    met: bool | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of them does not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(samples: Sequence[float]) -> float:
    """The middle one."""
    return quantile(samples, 0.5)


def show(lines: Sequence[Line], notes: Sequence[str]) -> None:
    """Print the table."""
    console = Console(width=max(120, Console().width))
    table = Table(title="make bench", title_justify="left")
    for name in ("", "what", "goal", "measured", "peer", "ratio", "met"):
        table.add_column(name, justify="right" if name == "ratio" else "left")
    for line in lines:
        met = "" if line.met is None else "[green]yes[/]" if line.met else "[red]no[/]"
        ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
        table.add_row(str(line.row), line.what, line.goal, line.measured, line.peer, ratio, met)
    console.print(table)
    for note in notes:
        console.print(f"  {note}", style="dim", highlight=False)


def save(folder: Path, lines: Sequence[Line], **about: Any) -> Path:
    """Write everything as JSON; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    machine = {
        "python": platform.python_version(),
        "system": platform.system(),
        "cpus": os.cpu_count(),
        "load_before": about.pop("load", None),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    content = {"machine": machine, **about, "lines": [asdict(line) for line in lines]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path
