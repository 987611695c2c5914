"""The reports of the inbox page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.domain.reports import AGES, LEFT, PERIODS, TOOK
from slackbot.reviewing.reports import report_for
from slackbot.web.auth.visitors import Signed
from slackbot.web.http.context import web_context
from slackbot.web.inbox import plots
from slackbot.web.inbox.rendering import PageRoute, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

USUAL = 30


@router.get("/inbox/reports")
async def reports(request: Request, who: Signed, days: str = "") -> Response:
    """Everything for administrators, else what the visitor may see."""
    ctx = web_context(request)
    period = int(days) if days in map(str, PERIODS) else USUAL
    report = await report_for(ctx.db, ctx.slack.directory, who.person, period)
    people = {each.person.user_id for each in report.reviewers[: plots.MAX_BARS]}
    names = await ctx.slack.directory.names(people | {who.person.user_id})
    return page(
        "reports.html",
        here="reports",
        visitor=who,
        names=names,
        report=report,
        periods=PERIODS,
        ages=plots.by_class(AGES, report.waiting_by_age, "waiting"),
        deadlines=plots.by_class(LEFT, report.waiting_by_deadline, "waiting"),
        took=plots.by_class(TOOK, report.took, "decided"),
        days=plots.by_day(report.by_day),
        agents=plots.by_group(report.agents),
        rules=plots.by_group(report.rules),
        reviewers=plots.by_reviewer(report.reviewers, names),
        unread=plots.unread(report, names),
        left_out=plots.left_out,
    )
