"""The numbers of a report, in words."""

from __future__ import annotations

from collections.abc import Sequence

from agent.domain.reports import LEFT, GroupOutcomes, Outcomes, Report, ReviewerVotes, Share
from agent.domain.request import RequestStatus
from agent.domain.verdicts import ENDED
from slackbot.cards import blocks, inert
from slackbot.cards.command_names import DEFAULT_NAMES, CommandNames
from slackbot.cards.durations import roughly
from slackbot.cards.values import Card, Json

MOST = 5

MORE = "The Reports page of your inbox shows all of this in charts: "


def stats(report: Report, names: CommandNames = DEFAULT_NAMES) -> Card:
    """Return a report in words: what waits, outcomes, times, and votes by agent, checkpoint and reviewer."""
    about = "the whole workspace" if report.everything else "the requests that you may see"
    heading = f"The last {report.days} days, for {about}"
    lines = [
        f"Waiting now: {'at least ' if report.waiting_cut else ''}{report.waiting:,}{_overdue(report)}",
        f"Outcomes: {report.outcomes.total:,}; {outcomes_text(report.outcomes)}",
    ]
    if report.median is not None and report.slowest is not None:
        lines.append(
            f"Time to decision: half within {roughly(report.median)}, nine of ten within {roughly(report.slowest)}"
        )
    if report.together.number:
        lines.append(f"Decided together: {together_text(report)}")
    if report.unread.whole:
        lines.append(f"Votes without opening Details: {report.unread}")
    parts = [
        blocks.section(blocks.text(heading, bold=True)),
        blocks.bullets(blocks.section(blocks.text(line)) for line in lines),
        *_groups("Agents", report.agents),
        *_groups("Checkpoints", report.rules),
        *_reviewers(report.reviewers),
        blocks.section(blocks.text(MORE), blocks.text(names.spelled("/approvals inbox"), code=True)),
    ]
    return Card(f"{heading}: {'; '.join(lines)}", blocks.with_ids([blocks.rich_text(*parts)], "stats"))


def outcomes_text(outcomes: Outcomes, median: float | None = None) -> str:
    """`8 of 9 (89 %) approved, 1 expired; median 4 min`."""
    approved = Share(outcomes.of("approved"), outcomes.decided)
    decided = f"{approved} approved" if outcomes.decided else "none decided"
    others = [
        each.status for each in ENDED if each.status not in (RequestStatus.APPROVED, RequestStatus.REJECTED)
    ]
    rest = [f"{count:,} {each.word}" for each in others if (count := outcomes.of(each))]
    return f"{', '.join([decided, *rest])}{median_text(median)}"


def together_text(report: Report) -> str:
    """`6 of 40 (15 %); median 3 min, alone 12 min`: decisions by a form that decided several, and the others."""
    alone = "" if report.alone.median is None else f", alone {roughly(report.alone.median)}"
    return f"{report.decided_together}{median_text(report.together.median)}{alone}"


def votes_text(votes: ReviewerVotes) -> str:
    """`3 approved, 1 rejected; median 4 min`."""
    return ", ".join(f"{count:,} {each.word}" for each, count in votes.outcomes) + median_text(votes.median)


def median_text(seconds: float | None) -> str:
    """Write a median of seconds as the end of a sentence (`; median 4 min`); empty for None."""
    return "" if seconds is None else f"; median {roughly(seconds)}"


def _overdue(report: Report) -> str:
    overdue = dict(zip(LEFT.names, report.waiting_by_deadline, strict=True))["overdue"]
    return f", {overdue:,} overdue" if overdue else ""


def _groups(heading: str, groups: Sequence[GroupOutcomes]) -> list[Json]:
    if not groups:
        return []
    lines = [
        blocks.section(
            blocks.text(f"{inert.line(each.name, 60)}: {outcomes_text(each.outcomes, each.median)}")
        )
        for each in groups[:MOST]
    ]
    return [blocks.section(blocks.text(heading, bold=True)), blocks.bullets(lines)]


def _reviewers(reviewers: Sequence[ReviewerVotes]) -> list[Json]:
    if not reviewers:
        return []
    lines = [
        blocks.section(
            blocks.person(each.person),
            blocks.text(f": {votes_text(each)}; without Details {Share(each.unread, each.votes)}"),
        )
        for each in reviewers[:MOST]
    ]
    return [blocks.section(blocks.text("Reviewers", bold=True)), blocks.bullets(lines)]
