"""The numbers of a week that operators read once, each with its whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.domain.observation import ObservedCount, summary
from agent.domain.reports import AGES, Report, Share
from signoff.formats import enumerated

MAX_NAMED = 5
"""Checkpoints that a line names."""


@dataclass(frozen=True, slots=True)
class PolicyUse:
    """What a policy did over some days. ``checkpoints``: in force all that time, of which some caught nothing.

    ``denied``: by checkpoint, most first. ``cut``: too many evaluations, so the earliest are missing.
    """

    evaluated: int
    denied: tuple[tuple[str, int], ...]
    checkpoints: tuple[str, ...]
    silent: tuple[str, ...]
    observed: tuple[ObservedCount, ...]
    cut: bool = False

    @property
    def denials(self) -> Share:
        return Share(sum(number for _, number in self.denied), self.evaluated)


@dataclass(frozen=True, slots=True)
class WorkNumbers:
    """Attempts that began in a week, and what is so now: calls in doubt, grants in force, those that end soon."""

    attempts: int
    doubtful: int
    in_doubt: int
    grants: int
    ending: int


@dataclass(frozen=True, slots=True)
class WeekLine:
    """``about``: what the line counts, which has a page of the inbox."""

    about: str
    title: str
    text: str


def week_before(at: datetime) -> tuple[datetime, datetime]:
    """Monday to Monday, in the time zone of ``at``."""
    today = at.replace(hour=0, minute=0, second=0, microsecond=0)
    end = today - timedelta(days=today.weekday())
    return end - timedelta(days=7), end


def week_lines(report: Report, use: PolicyUse, work: WorkNumbers) -> list[WeekLine]:
    """Return what there is to say; nothing is said of nothing."""
    return list(_lines(report, use, work))


def _lines(report: Report, use: PolicyUse, work: WorkNumbers) -> Iterator[WeekLine]:
    outcomes = report.outcomes
    if report.waiting:
        classes = reversed(list(zip(AGES.names, report.waiting_by_age, strict=True)))
        whole = f"{'at least ' if report.waiting_cut else ''}{report.waiting:,}"
        ages = "; ".join(f"{name}: {number:,}" for name, number in classes if number)
        yield WeekLine("waiting", "Waiting now, by age", f"{ages}; {whole} in all")
    latest = ", the latest only" if report.cut else ""
    if expired := outcomes.of("expired"):
        share = Share(expired, outcomes.total)
        yield WeekLine("expired", "Expired", f"{share} requests that ended{latest}")
    if work.doubtful or work.in_doubt:
        begun = f"{Share(work.doubtful, work.attempts)} attempts that began; " if work.doubtful else ""
        verb = "call waits" if work.in_doubt == 1 else "calls wait"
        yield WeekLine("in_doubt", "In doubt", f"{begun}{work.in_doubt:,} {verb} to be settled")
    if report.unread.part:
        of_latest = " on the latest requests" if report.cut else ""
        yield WeekLine("unread", "Decided without opening Details", f"{report.unread} votes{of_latest}")
    if report.together.number:
        decisions = f"{report.decided_together} decisions{latest}"
        yield WeekLine("together", "Decided together", decisions)
    if work.ending:
        yield WeekLine(
            "grants", "Grants that end within 7 days", f"{Share(work.ending, work.grants)} in force"
        )
    if use.denied:
        by = [f"{name}: {number:,}" for name, number in use.denied]
        yield WeekLine("denied", "Denied by policy", f"{use.denials} evaluated actions ({_named(by)})")
    if use.silent:
        share = Share(len(use.silent), len(use.checkpoints))
        yield WeekLine("silent", "Checkpoints that caught nothing", f"{share}: {_named(use.silent)}")
    if use.observed:
        title = "Observed checkpoints (`signoff policy observed` has examples)"
        yield WeekLine("observed", title, summary(use.observed))


def _named(names: Sequence[str]) -> str:
    return "".join(enumerated(list(names), MAX_NAMED))
