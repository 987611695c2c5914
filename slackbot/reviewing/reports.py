"""The numbers of the reports, of what a person may see."""

from __future__ import annotations

from datetime import date

from agent.database.pools import Database
from agent.domain.reports import Report
from agent.store import views
from agent.store.views.reports import ReportScope
from signoff.values import Person
from slackbot.reviewing.visibility import seen_audiences
from slackbot.slack_api.directory import Directory


async def report_for(
    db: Database, directory: Directory, person: Person, days: int, last: date | None = None
) -> Report:
    """Administrators get everything, others what they may see."""
    everything = await directory.is_admin(person)
    found = [] if everything else await db.read(views.report_audiences, directory.own_team_id, days, last)
    seen = await seen_audiences(directory, person, found)
    scope = ReportScope(person, everything, tuple(sorted(seen)))
    return await db.read(views.report, scope, days, last)
