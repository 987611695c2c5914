"""`python -m benchmarks.publish [FILE …]`: write results to `docs/benchmarks/`, as tables and plots.

Uses the given files, or the latest of each kind. Replaces text between `<!-- measured: NAME -->` and `<!-- end -->` in
`docs/scale.md` and `README.md`; everything else is unchanged.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agent.database import locations
from benchmarks import plots
from benchmarks.reading import PAGES
from benchmarks.scale_model import needs
from benchmarks.stats import Ratio, median, p99

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "benchmarks"
Result = dict[str, Any]


def rows(result: Result) -> None:
    lines = result["lines"]
    DOCS.joinpath("rows.md").write_text(f"# Rows\n\n{_about(result)}\n\n{_goals(lines)}")
    found = {line["row"]: line for line in reversed(lines) if line["row"] in {2, 3}}
    if len(found) < 2:
        return
    title = "Signoff and DBOS: time from vote to tool, and calls per second"
    plots.votes(DOCS / "vote.svg", title, found[2]["samples"], found[3]["samples"])
    times, rates = (Ratio(**found[row]["ratio"]) for row in (2, 3))
    _fill(
        ROOT / "README.md",
        "ratios",
        f"Compared with DBOS `recv` in the same run, Signoff takes {times} times as long from vote to tool (p50)\n"
        f"and handles {rates} times as many calls per second with eight voters "
        "([all rows](docs/benchmarks/rows.md)).\n\n"
        f"![{title}](docs/benchmarks/vote.svg)",
    )


def idle(result: Result) -> None:
    DOCS.joinpath("idle.md").write_text(f"# Idle\n\n{_about(result)}\n\n{_goals(result['lines'])}")


def growth(result: Result) -> None:
    points, peer = result.get("points", []), result.get("dbos")
    text = f"# Growth\n\n{_about(result)}\n\n"
    if points:
        title = "How the service grows with waiting requests"
        plots.growth(DOCS / "growth.svg", title, points, peer)
        text += f"![{title}](growth.svg)\n\n{_curves(points, peer)}\n\n"
    if decided := result.get("decided"):
        title = "How pages grow with decided requests"
        plots.reading(DOCS / "decided.svg", title, decided)
        text += f"![{title}](decided.svg)\n\n{_pages(decided)}\n\n"
    DOCS.joinpath("growth.md").write_text(text + _goals(result["lines"]))


def scale(result: Result) -> None:
    tables = sorted(result["bytes"].items(), key=lambda each: -sum(each[1].values()))
    kept = [[f"`{name}`", f"{each['heap']:,.0f}", f"{each['indexes']:,.0f}"] for name, each in tables]
    heap, indexes = (sum(each[part] for _, each in tables) for part in ("heap", "indexes"))
    kept.append(["**together**", f"**{heap:,.0f}**", f"**{indexes:,.0f}**"])
    file = ROOT / "docs" / "scale.md"
    about = f"{_about(result)}\n\n"
    _fill(file, "cost", about + _table(("", "opening", "deciding and executing"), _costs(result)))
    _fill(file, "bytes", _table(("table", "heap, bytes", "indexes, bytes"), kept))
    _fill(file, "needs", _table(("", "10 / min", "1,000 / min", "100,000 / min"), needs(result)))


KINDS: dict[str, Callable[[Result], None]] = {"rows": rows, "idle": idle, "growth": growth, "scale": scale}


def _costs(result: Result) -> list[list[str]]:
    opening, deciding = result["opening"], result["deciding"]
    named = {
        "commits": "commits",
        "statements": "statements",
        "flushes": "flushes of the log",
        "wal": "bytes of WAL",
        "server_ms": "PostgreSQL, ms of a core",
        "python_ms": "Python, ms of a core",
    }
    return [[what, _number(opening.get(name)), _number(deciding.get(name))] for name, what in named.items()]


def _curves(points: list[Result], peer: Result | None) -> str:
    scalars = {
        "built": "copies made, s",
        "ready": "start to ready, s",
        "memory": "memory, MB",
        "idle": "idle: service, % of a core",
        "database": "idle: PostgreSQL, % of a core",
        "expire": "a sweep, ms for each request due",
    }
    table = [
        [what, *(_number(point.get(name)) for point in points), _number((peer or {}).get(name))]
        for name, what in scalars.items()
    ]
    table += [
        [f"{what}, p50 / p99 ms", *(_pair(point.get(name)) for point in points), ""]
        for name, what in {**plots.CURVES, "history": "history page", "mine": "/approvals mine"}.items()
    ]
    if peer:
        table.append(
            [
                "DBOS send → recv, p50 / p99 ms",
                _pair(peer["recv_none"]),
                *[""] * (len(points) - 1),
                _pair(peer["recv"]),
            ]
        )
    beside = f"DBOS, {peer['waiting']:,}" if peer else "DBOS"
    return _table(("waiting", *(f"{point['waiting']:,}" for point in points), beside), table)


def _pages(points: list[Result]) -> str:
    """CPU is that of the service and of PostgreSQL for one page."""
    table = [
        ["copies made, s", *(_number(point["built"]) for point in points)],
        ["memory, MB", *(_number(point["memory"]) for point in points)],
        ["database, MB", *(_number(point["bytes"] / 2**20) for point in points)],
    ]
    table += [
        [
            f"{what}: p50 / p99 ms; CPU ms",
            *(f"{_pair(point['pages'].get(name))}; {_number(point['cpu'].get(name))}" for point in points),
        ]
        for name, what in PAGES.items()
    ]
    return _table(("decided", *(f"{point['decided']:,}" for point in points)), table)


def _about(result: Result) -> str:
    machine, server = result["machine"], result["server"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    return (
        f"Measured on {machine['date']} at commit {machine['commit']} by `{result['command']}`, on"
        f" {machine['cpus']} cores ({machine['processor']}, {machine['memory_gb']} GB), "
        f"load before the start {machine['load_before']}; "
        f"a fixed piece of Python takes {machine['calibration_ms']} ms. "
        f"PostgreSQL {server['server_version']}, fsync {server['fsync']}, a flush takes {server['flush_ms']} ms; "
        f"Python {machine['python']}, {libraries}."
    )


def _goals(lines: Iterable[Result]) -> str:
    met = {True: "yes", False: "**no**", None: ""}
    table = [
        [
            str(line["row"]),
            line["what"],
            line["measured"],
            line["peer"],
            str(Ratio(**line["ratio"])) if line["ratio"] else "",
            line["goal"],
            met[line["met"]],
        ]
        for line in lines
    ]
    return _table(("row", "what", "measured", "peer", "ratio, 95 % interval", "goal", "met"), table) + "\n"


def _table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (head, *body)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _pair(samples: list[float] | None) -> str:
    return f"{median(samples):.1f} / {p99(samples):.1f}" if samples else ""


def _fill(file: Path, name: str, text: str) -> None:
    marks = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    old = file.read_text()
    if not marks.search(old):
        print(f"{file.name} has no place for {name}; it would be:\n{text}")
        return
    file.write_text(marks.sub(lambda found: f"{found[1]}{text}\n{found[2]}", old))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="results; by default the latest of each kind")
    home = locations.data_home() / "bench"
    latest = (sorted(home.glob(f"{kind}-*.json"))[-1:] for kind in KINDS)
    DOCS.mkdir(exist_ok=True)
    for file in parser.parse_args().files or [file for files in latest for file in files]:
        KINDS[file.name.partition("-")[0]](json.loads(file.read_text()))
        print(f"published {file.name}")


if __name__ == "__main__":
    main()
