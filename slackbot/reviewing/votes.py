"""A person's vote, the same from Slack, the inbox page and the API."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic
from uuid import UUID

from agent.database.pools import Database
from agent.database.precedence import Rank
from agent.domain.answers import AnswerValue
from agent.domain.errors import DOUBTFUL, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Ballot, Place, Together, Verdict
from agent.store import views
from agent.store.views import VoteContext
from agent.usecases import requests
from agent.usecases.requests import Votes
from signoff.values import Person
from slackbot.slack_api.directory import Directory

BUDGET = 2.6
"""Seconds for a click; Slack stops waiting after 3."""

VOTE_BUDGET = 2.4
"""Seconds after which a vote no longer counts: 0.8 for identities, 0.4 for a connection, 1.2 for the rest."""

OUTCOME_UNKNOWN = (
    "Something took too long or failed, and it is not known whether this was recorded. It is safe to try again: "
    "it counts once."
)


@dataclass(frozen=True, slots=True)
class NewVote:
    """``place`` of the pressed button, ``principal`` of an API key's vote."""

    person: Person
    request_id: UUID
    revision: int
    verdict: Verdict
    path: str
    reason: str | None = None
    place: Place | None = None
    principal: str | None = None
    answer: AnswerValue | None = None
    together: Together | None = None
    arrived: float = field(default_factory=monotonic)


async def vote_context(db: Database, directory: Directory, request_id: UUID) -> VoteContext:
    """Raises Refused."""
    known = await db.read(views.vote_context, request_id)
    if known is None or known.team_id != directory.own_team_id:
        raise Refused(Refusal.UNKNOWN_REQUEST)
    return known


async def cast_vote(
    votes: Votes, directory: Directory, vote: NewVote, known: VoteContext | None = None
) -> requests.VoteOutcome:
    """Raises Refused (recorded); after any other error it is unknown whether the vote was recorded."""
    with votes.db.precedence.at_work(Rank.PERSON):
        known = known or await vote_context(votes.db, directory, vote.request_id)
        while True:
            try:
                return await votes.cast(
                    await _ballot(votes.db, directory, vote, known), vote.arrived + VOTE_BUDGET
                )
            except requests.NewVoters as since:  # a vote past its deadline does not count
                known = replace(known, voters=(*known.voters, *since.people))


async def _ballot(db: Database, directory: Directory, vote: NewVote, known: VoteContext) -> Ballot:
    standings = await _standings(db, directory, vote, known)
    return Ballot(
        request_id=vote.request_id,
        revision=vote.revision,
        verdict=vote.verdict,
        voter=standings[vote.person],
        standings=standings,
        path=vote.path,
        reason=vote.reason,
        place=vote.place,
        principal=vote.principal,
        tool=known.tool,
        answer=vote.answer,
        together=vote.together,
    )


async def _standings(
    db: Database, directory: Directory, vote: NewVote, known: VoteContext
) -> dict[Person, Standing]:
    """Include everybody whose vote is live.

    If an earlier voter cannot be checked now, this vote has to wait: counted alone, it could miss the quorum, with
    nobody left to complete it.
    """
    standings = await directory.standings([vote.person, *known.voters], known.approvers, known.channel_id)
    doubt = next((each.refusal for each in standings.values() if each.refusal in DOUBTFUL), None)
    if standings[vote.person].refusal is None and doubt is not None:
        await requests.record_refusal(
            db, vote.request_id, vote.revision, vote.person, doubt, vote.path, principal=vote.principal
        )
        raise Refused(doubt)
    return standings
