"""A run is cancelled on a person's word, on every path alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.domain.people import Standing
from agent.store import views
from agent.store.views import CancelContext
from agent.usecases import runs
from signoff.values import Person
from slackbot.reviewing.visibility import reviewer_scope
from slackbot.slack_api.directory import Directory

NO_SUCH_RUN = "There is no such run, or it is not one that you may cancel."


async def cancel(
    db: Database, directory: Directory, person: Person, run_id: UUID, *, path: str, as_reviewer: bool = True
) -> bool:
    """End the run, also for reviewers of its requests (``as_reviewer``). False: it had ended. Raises NotFound and
    Refused.
    """
    _, by, channels = await _standing(db, directory, person, run_id, as_reviewer=as_reviewer)
    return await runs.cancel(db, run_id, by, channels, path=path)


async def may_cancel(db: Database, directory: Directory, person: Person, run_id: UUID) -> bool:
    """For buttons only: the use case decides."""
    try:
        known, by, channels = await _standing(db, directory, person, run_id, as_reviewer=True)
    except NotFound:
        return False
    return by.refusal is None and (person == known.requester or bool(by.roles or channels))


async def _standing(
    db: Database, directory: Directory, person: Person, run_id: UUID, *, as_reviewer: bool
) -> tuple[CancelContext, Standing, tuple[str, ...]]:
    known = await db.read(views.cancel_context, run_id)
    if known is None or known.team_id != directory.own_team_id:
        raise NotFound(NO_SUCH_RUN)
    audiences = () if person == known.requester or not as_reviewer else known.audiences
    standing, scope = await asyncio.gather(
        directory.identify(person), reviewer_scope(directory, person, audiences)
    )
    lost = scope.doubt if not (scope.roles or scope.channels) else None
    by = replace(standing, roles=frozenset(scope.roles), refusal=standing.refusal or lost)
    return known, by, scope.channels
