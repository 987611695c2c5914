"""Cancelling a run, on every path: who somebody is to it, then the use case that judges."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.store import views
from agent.usecases import runs
from signoff.values import Person
from slackbot.reviewing.visibility import reviewer_scope
from slackbot.slack_api.directory import Directory

NO_SUCH_RUN = "There is no such run, or it is not one that you may cancel."


async def cancel(
    db: Database, directory: Directory, person: Person, run_id: UUID, *, path: str, as_reviewer: bool = True
) -> bool:
    """End the run; False: it was over already. Raises NotFound and Refused (recorded).

    Without ``as_reviewer`` only the run's requester may: a key that cannot decide does not make its owner a reviewer.
    """
    async with db.connection() as connection:
        known = await views.cancel_context(connection, run_id)
    if known is None or known.team_id != directory.own_team_id:
        raise NotFound(NO_SUCH_RUN)
    # The requester needs no role; everybody else may only be a reviewer.
    audiences = () if person == known.requester or not as_reviewer else known.audiences
    standing, scope = await asyncio.gather(
        directory.identify(person), reviewer_scope(directory, person, audiences)
    )
    lost = scope.doubt if not (scope.roles or scope.channels) else None
    by = replace(standing, roles=frozenset(scope.roles), refusal=standing.refusal or lost)
    return await runs.cancel(db, run_id, by, scope.channels, path=path)
