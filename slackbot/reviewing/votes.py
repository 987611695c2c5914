"""From a person's word to a vote, whichever door it came through: their standing now, then the use case that judges."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Ballot, Place, Verdict
from agent.store import views
from agent.store.views import VoteContext
from agent.usecases import requests
from signoff.values import Person
from slackbot.slack_api.directory import Directory

_DOUBTFUL = (Refusal.LOOKUP_FAILED, Refusal.RATE_LIMITED_LOOKUP)


async def vote_context(db: Database, directory: Directory, request_id: UUID) -> VoteContext:
    """What is known of the request before a vote. Raises Refused."""
    async with db.connection() as connection:
        known = await views.vote_context(connection, request_id)
    if known is None or known.team_id != directory.own_team_id:
        raise Refused(Refusal.UNKNOWN_REQUEST)
    return known


async def cast_vote(
    db: Database,
    directory: Directory,
    person: Person,
    request_id: UUID,
    revision: int,
    verdict: Verdict,
    *,
    path: str,
    reason: str | None = None,
    place: Place | None = None,
    known: VoteContext | None = None,
    principal: str | None = None,
) -> requests.VoteOutcome:
    """Count this person's word. Raises Refused (recorded); anything else: nothing is known to be recorded.

    ``path`` names the door for the record, ``principal`` the key that carried the word, if one did; ``place`` is
    where a card's button was pressed, ``None`` at doors without cards.
    """
    known = known or await vote_context(db, directory, request_id)
    voter, standings = await _standings(db, directory, person, revision, path, known, principal)
    ballot = Ballot(
        request_id=request_id,
        revision=revision,
        verdict=verdict,
        voter=voter,
        standings=standings,
        path=path,
        reason=reason,
        place=place,
        principal=principal,
    )
    return await requests.vote(db, ballot)


async def _standings(
    db: Database,
    directory: Directory,
    person: Person,
    revision: int,
    path: str,
    known: VoteContext,
    principal: str | None,
) -> tuple[Standing, dict[Person, Standing]]:
    """The voter's standing and those of everybody whose vote is live.

    When somebody's earlier vote cannot be judged now, this vote has to wait: counted without it, a quorum that
    is there would be missed, and nobody would be left to complete it.
    """
    standings = await directory.standings([person, *known.voters], known.approvers, known.channel_id)
    voter = standings[person]
    doubt = next((each.refusal for each in standings.values() if each.refusal in _DOUBTFUL), None)
    if voter.refusal is None and doubt is not None:
        await requests.record_refusal(
            db, known.request_id, revision, person, doubt, path, principal=principal
        )
        raise Refused(doubt)
    return voter, standings
