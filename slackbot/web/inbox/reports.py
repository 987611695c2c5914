"""Reports of the inbox page, with charts in SVG that say the same numbers in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.domain.observation import described
from agent.domain.reports import (
    AGES,
    LEFT,
    PERIODS,
    TOOK,
    GroupOutcomes,
    Outcomes,
    Report,
    ReviewerVotes,
    Scale,
    Share,
)
from agent.domain.verdicts import ENDED
from agent.domain.week import PolicyUse
from agent.usecases.week import policy_use
from slackbot.cards import Names
from slackbot.cards.stats import median_text, votes_text
from slackbot.reviewing.reports import report_for
from slackbot.web.auth.visitors import Signed
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.inbox.rendering import PageRoute, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

USUAL = 30
"""Days."""

FIRST_YEAR = 2000
"""Of a last day: an earlier one may have no days before it."""

MAX_EVALUATIONS = 100_000
"""That the page counts."""

WIDTH = 100.0
COLUMN = 10.0
"""Width of a day, in drawing units."""

MAX_BARS = 20
"""Per chart; the last line sums up the rest."""

Part = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """A coloured part of a bar or column, with start and length in drawing units."""

    kind: str
    start: float
    length: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart with its label, and the same numbers in words."""

    label: str
    segments: tuple[Segment, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Column:
    """A day's column in a chart, with its outcomes; `x` is in drawing units."""

    day: date
    x: float
    segments: tuple[Segment, ...]
    outcomes: Outcomes


def by_class(scale: Scale, counts: Sequence[int], kind: str) -> list[Bar]:
    """Return a bar for each class of a scale; a full bar is all of them, as the percentage beside it says."""
    whole = sum(counts)
    return [
        Bar(name, _segments([(kind, count)], whole, WIDTH), str(Share(count, whole)))
        for name, count in zip(scale.names, counts, strict=True)
    ]


def by_group(groups: Sequence[GroupOutcomes]) -> list[Bar]:
    """Return a bar of outcomes for each of the first 20 groups; a full bar is the largest group's."""
    most = max((group.outcomes.total for group in groups), default=0)
    return [
        Bar(
            group.name,
            _segments(_parts(group.outcomes), most, WIDTH),
            f"{group.outcomes.total:,}: {_counted(group.outcomes)}{median_text(group.median)}",
        )
        for group in groups[:MAX_BARS]
    ]


def by_reviewer(reviewers: Sequence[ReviewerVotes], names: Names) -> list[Bar]:
    """Return a bar of votes for each of the first 20 reviewers; a full bar is that of the one with most."""
    most = max((each.votes for each in reviewers), default=0)
    return [
        Bar(
            names.of(each.person.user_id),
            _segments(each.outcomes, most, WIDTH),
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


def by_form(report: Report) -> list[Bar]:
    """Decisions together with others and alone; a full bar is all of them. Empty if none came together."""
    whole = report.decided_together.whole
    counted = [("Together", report.together), ("Alone", report.alone)] if report.together.number else []
    return [
        Bar(
            label,
            _segments([("decided", each.number)], whole, WIDTH),
            f"{Share(each.number, whole)}{median_text(each.median)}",
        )
        for label, each in counted
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
    """Say how many of `number` bars a chart leaves out (`and 7 more`); empty if it shows all."""
    return f"and {number - MAX_BARS:,} more" if number > MAX_BARS else ""


def _parts(outcomes: Outcomes) -> list[Part]:
    return [(each.status.value, outcomes.of(each.status)) for each in ENDED]


def _counted(outcomes: Outcomes) -> str:
    counts = [(each.status.word, outcomes.of(each.status)) for each in ENDED]
    return ", ".join(f"{count:,} {word}" for word, count in counts if count)


def _segments(parts: Iterable[Part], whole: int, length: float) -> tuple[Segment, ...]:
    made, start = [], 0.0
    for kind, count in parts:
        if count:
            size = length * count / whole
            made.append(Segment(kind, round(start, 2), round(size, 2)))
            start += size
    return tuple(made)


@router.get("/inbox/reports")
async def reports(request: Request, who: Signed, days: str = "", last: str = "") -> Response:
    """Everything for administrators, else what the visitor may see. ``last``: the last day, today by default."""
    ctx = web_context(request)
    period = int(days) if days in map(str, PERIODS) else USUAL
    ends = _day(last)
    report = await report_for(ctx.db, ctx.slack.directory, who.person, period, ends)
    use = await _policy_use(ctx, report) if report.everything else None
    people = {each.person.user_id for each in report.reviewers[:MAX_BARS]}
    names = await ctx.slack.directory.names(people | {who.person.user_id})
    return page(
        "reports.html",
        here="reports",
        visitor=who,
        names=names,
        report=report,
        ends=report.by_day[-1][0] if ends else None,
        use=use,
        observed=[(each.checkpoint_id, described(each)) for each in use.observed] if use else [],
        periods=PERIODS,
        ages=by_class(AGES, report.waiting_by_age, "waiting"),
        deadlines=by_class(LEFT, report.waiting_by_deadline, "waiting"),
        took=by_class(TOOK, report.took, "decided"),
        forms=by_form(report),
        days=by_day(report.by_day),
        agents=by_group(report.agents),
        rules=by_group(report.rules),
        reviewers=by_reviewer(report.reviewers, names),
        unread=unread(report, names),
        left_out=left_out,
    )


async def _policy_use(ctx: WebContext, report: Report) -> PolicyUse:
    first, last = report.by_day[0][0], report.by_day[-1][0]
    since, until = (datetime.combine(day, time(), UTC) for day in (first, last + timedelta(days=1)))
    return await policy_use(ctx.db, ctx.services.policies.last_loaded, since, until, MAX_EVALUATIONS)


def _day(given: str) -> date | None:
    """None for what is no day, or too early to have others before it."""
    try:
        day = date.fromisoformat(given)
    except ValueError:
        return None
    return day if day.year >= FIRST_YEAR else None
