"""An attempt in doubt is settled on a person's word."""

from __future__ import annotations

from typing import Literal

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.usecases import requests
from signoff.errors import Conflict
from signoff.values import Person
from slackbot.slack_api.directory import Directory


async def settle(
    db: Database,
    directory: Directory,
    view: RequestView,
    person: Person,
    verdict: Literal["retry", "done"],
    path: str,
) -> int:
    """Settle the last attempt. Returns how many more votes Retry needs. Raises as ``requests.settle``."""
    execution = view.execution
    if execution is None:
        raise Conflict("nothing in this request is in doubt")
    earlier = set(execution.retry_voters)
    while True:
        standings = await directory.standings([person, *earlier], view.approvers, view.channel_id)
        try:
            return await requests.settle(
                db, execution.id, standings[person], verdict, others=list(standings.values()), path=path
            )
        except requests.NewVoters as since:
            earlier.update(since.people)
