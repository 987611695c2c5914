"""Charts in SVG, with the same numbers in words. Labels are page text, which keeps its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from agent.domain.reports import GroupOutcomes, Outcomes, Report, ReviewerVotes, Scale, Share
from agent.domain.verdicts import ENDED
from slackbot.cards import Names
from slackbot.cards.stats import outcomes_text, votes_text

WIDTH = 100.0
COLUMN = 10.0
"""Width of a day, in drawing units."""

MAX_BARS = 20
"""Per chart; the last line sums up the rest."""

Part = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Segment:
    kind: str
    start: float
    length: float


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    segments: tuple[Segment, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Column:
    day: date
    x: float
    segments: tuple[Segment, ...]
    outcomes: Outcomes


def by_class(scale: Scale, counts: Sequence[int], kind: str) -> list[Bar]:
    most, whole = max(counts, default=0), sum(counts)
    return [
        Bar(name, _segments([(kind, count)], most, WIDTH), str(Share(count, whole)))
        for name, count in zip(scale.names, counts, strict=True)
    ]


def by_group(groups: Sequence[GroupOutcomes]) -> list[Bar]:
    most = max((group.outcomes.total for group in groups), default=0)
    return [
        Bar(
            group.name,
            _segments(_parts(group.outcomes), most, WIDTH),
            outcomes_text(group.outcomes, group.median),
        )
        for group in groups[:MAX_BARS]
    ]


def by_reviewer(reviewers: Sequence[ReviewerVotes], names: Names) -> list[Bar]:
    most = max((each.votes for each in reviewers), default=0)
    return [
        Bar(
            names.of(each.person.user_id),
            _segments([("approved", each.approvals), ("rejected", each.rejections)], most, WIDTH),
            votes_text(each),
        )
        for each in reviewers[:MAX_BARS]
    ]


def unread(report: Report, names: Names) -> list[Bar]:
    """Votes without opening Details: by risk, then by person. A full bar is all of their votes."""
    of_people = [
        (names.of(each.person.user_id), Share(each.unread, each.votes))
        for each in report.reviewers[:MAX_BARS]
    ]
    of_risks = [(f"{risk.value.capitalize()} risk", share) for risk, share in report.unread_by_risk]
    return [
        Bar(label, _segments([("unread", share.part)], share.whole, WIDTH), str(share))
        for label, share in [*of_risks, *of_people]
    ]


def by_day(days: Iterable[tuple[date, Outcomes]]) -> list[Column]:
    """A column per day; 100 is the highest."""
    listed = list(days)
    most = max((outcomes.total for _, outcomes in listed), default=0)
    return [
        Column(day, at * COLUMN + 1, _segments(_parts(outcomes), most, WIDTH), outcomes)
        for at, (day, outcomes) in enumerate(listed)
    ]


def left_out(number: int) -> str:
    return f"and {number - MAX_BARS:,} more" if number > MAX_BARS else ""


def _parts(outcomes: Outcomes) -> list[Part]:
    return [(each.status.value, getattr(outcomes, each.status.value)) for each in ENDED]


def _segments(parts: Iterable[Part], whole: int, length: float) -> tuple[Segment, ...]:
    made, start = [], 0.0
    for kind, count in parts:
        if count:
            size = length * count / whole
            made.append(Segment(kind, round(start, 2), round(size, 2)))
            start += size
    return tuple(made)
