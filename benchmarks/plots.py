"""Plots as SVG, with real text, readable on light and dark backgrounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.stats import Rounds, median, p99, pooled

INK = "#7d8590"
OURS, PEER = "#2f81f7", "#db6d28"
COLOURS = (OURS, PEER, "#3fb950", "#a371f7", "#bf8700")
STYLE: Any = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "signoff",  # same result, same file
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "savefig.transparent": True,
}
CURVES = {
    "click": "click → tool",
    "vote": "vote → tool",
    "inbox": "inbox page",
    "todo": "/approvals",
    "home": "App Home",
}

READ = {
    "history": "history",
    "checkpoint": "one checkpoint",
    "status": "rejected",
    "common": "a common word",
    "nowhere": "a word nowhere",
    "runs": "runs",
    "reports": "reports",
    "inbox": "inbox",
}
READ_STYLES = [f"{marker}-" for marker in "osv^D<>x"]


def votes(path: Path, title: str, latency: dict[str, Rounds], rates: dict[str, Rounds]) -> None:
    """Left: cumulative share of votes whose tool had started. Right: calls per second of each round."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6))
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        for (name, rounds), colour in zip(latency.items(), (OURS, PEER), strict=True):
            samples = sorted(pooled(rounds))
            left.plot(
                samples,
                [100 * (n + 1) / len(samples) for n in range(len(samples))],
                color=colour,
                label=_named(name),
            )
        left.set(title="vote → tool starts", xlabel="milliseconds", ylabel="% of votes", ylim=(0, 100))
        left.set_xlim(0, 1.1 * max(p99(pooled(rounds)) for rounds in latency.values()))
        left.legend(loc="lower right")
        for n, (rounds, colour) in enumerate(zip(rates.values(), (OURS, PEER), strict=True)):
            each = pooled(rounds)
            right.bar(n, median(each), color=colour, alpha=0.35)
            right.plot([n] * len(each), each, "o", color=colour, markersize=4)
            right.annotate(f"{median(each):,.0f}", (n, median(each)), ha="center", va="bottom")
        right.set(title="calls / s, 8 voters", xticks=range(len(rates)))
        right.set_xticklabels([_named(name) for name in rates])
        _save(figure, path, title)


def growth(path: Path, title: str, points: Sequence[dict[str, Any]], peer: dict[str, Any] | None) -> None:
    """Left: medians by number of waiting requests. Right: memory, and idle CPU time."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.8))
        left, right = figure.subplots(1, 2)
        waiting = [max(point["waiting"], 1) for point in points]
        for (name, label), colour in zip(CURVES.items(), COLOURS, strict=True):
            left.plot(waiting, [median(point[name]) for point in points], "o-", color=colour, label=label)
        if peer:
            left.plot([peer["waiting"]], [median(peer["recv"])], "s", color=INK, label="DBOS recv")
        left.set(title="median, milliseconds", xlabel="waiting requests", xscale="log", yscale="log")
        left.legend(fontsize=9, ncols=2)
        right.plot(waiting, [point["memory"] for point in points], "o-", color=OURS, label="memory, MB")
        right.set(title="the process at rest", xlabel="waiting requests", xscale="log", ylabel="MB")
        right.set_ylim(0, 1.25 * max(point["memory"] for point in points))
        for panel in (left, right):
            panel.set_xticks(waiting, [f"{point['waiting']:,}" for point in points], rotation=20, fontsize=9)
            panel.minorticks_off()
        if peer:
            right.plot([peer["waiting"]], [peer["memory"]], "s", color=INK, label="DBOS, memory")
        share = right.twinx()
        share.grid(visible=False)
        share.plot(
            waiting,
            [point["idle"] for point in points],
            "o--",
            color="#3fb950",
            label="idle: service, % of a core",
        )
        share.plot(
            waiting, [point["database"] for point in points], "o:", color=PEER, label="idle: PostgreSQL, %"
        )
        share.set_ylim(0, max(3.0, *(point["idle"] for point in points)))
        lines = [*right.get_legend_handles_labels()[0], *share.get_legend_handles_labels()[0]]
        right.legend(handles=lines, fontsize=9, loc="lower right")
        _save(figure, path, title)


def reading(path: Path, title: str, points: Sequence[dict[str, Any]]) -> None:
    """Medians of pages by number of decided requests."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.8))
        (panel,) = [figure.subplots()]
        sizes = [max(point["decided"], 1) for point in points]
        for (name, label), style in zip(READ.items(), READ_STYLES, strict=True):
            panel.plot(sizes, [median(point["pages"][name]) for point in points], style, label=label)
        panel.set(title="median, milliseconds", xlabel="decided requests", xscale="log", ylim=(0, None))
        panel.set_xticks(sizes, [f"{point['decided']:,}" for point in points], fontsize=9)
        panel.minorticks_off()
        panel.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
        _save(figure, path, title)


def _named(name: str) -> str:
    return "Signoff" if name == "ours" else name


def _save(figure: Figure, path: Path, title: str) -> None:
    """Add a title for screen readers."""
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Title": title, "Date": None})
    drawn = path.read_text().replace("<svg ", '<svg role="img" aria-labelledby="title" ', 1)
    drawn = drawn.replace("<title>", '<title id="title">', 1)
    path.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n")
