"""A person's vote, the same from Slack, the inbox page and the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from uuid import UUID

from agent.database.pools import Database
from agent.database.precedence import Rank
from agent.domain.answers import AnswerValue
from agent.domain.errors import DOUBTFUL, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Ballot, Electorate, Place, Rights, Together, Verdict
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
    form_asks_reason: bool = False
    """A form asks for a missing reason, so `Refusal.REASON_REQUIRED` is not recorded."""


async def cast_vote(votes: Votes, directory: Directory, vote: NewVote) -> requests.VoteOutcome:
    """Raises Refused (recorded); after any other error it is unknown whether the vote was recorded.

    Nothing is read beforehand. The voter is looked up first, and the rest only if it is not known by now.
    """
    with votes.db.precedence.at_work(Rank.PERSON):
        voter = await directory.identify(vote.person)
        ballot = _ballot(vote, voter, {}, rights=partial(_known_standings, directory, voter))
        while True:
            try:
                return await votes.cast(ballot, vote.arrived + VOTE_BUDGET)
            except requests.NotLookedUp as first:  # a vote past its deadline does not count
                electorate = first.electorate
            standings = await _standings(votes.db, directory, vote, electorate)
            ballot = _ballot(vote, standings[vote.person], standings, tool=electorate.tool)


def _ballot(
    vote: NewVote,
    voter: Standing,
    standings: Mapping[Person, Standing],
    tool: str | None = None,
    rights: Rights | None = None,
) -> Ballot:
    return Ballot(
        request_id=vote.request_id,
        revision=vote.revision,
        verdict=vote.verdict,
        voter=voter,
        standings=standings,
        path=vote.path,
        reason=vote.reason,
        place=vote.place,
        principal=vote.principal,
        tool=tool,
        answer=vote.answer,
        together=vote.together,
        rights=rights,
        form_asks_reason=vote.form_asks_reason,
    )


def _known_standings(
    directory: Directory, voter: Standing, electorate: Electorate
) -> Mapping[Person, Standing] | None:
    if electorate.team_id != directory.own_team_id:
        return None
    if voter.refusal is not None:
        return {voter.person: voter}  # refused, whoever else has voted
    return directory.known_standings(electorate.voters, electorate.approvers, electorate.channel_id)


async def _standings(
    db: Database, directory: Directory, vote: NewVote, electorate: Electorate
) -> dict[Person, Standing]:
    """Look up everybody whose vote is live. Raises Refused.

    If an earlier voter cannot be checked now, this vote has to wait: counted alone, it could miss the quorum, with
    nobody left to complete it.
    """
    if electorate.team_id != directory.own_team_id:
        raise Refused(Refusal.UNKNOWN_REQUEST)
    standings = await directory.standings(electorate.voters, electorate.approvers, electorate.channel_id)
    doubt = next((each.refusal for each in standings.values() if each.refusal in DOUBTFUL), None)
    if standings[vote.person].refusal is None and doubt is not None:
        await requests.record_refusal(
            db, vote.request_id, vote.revision, vote.person, doubt, vote.path, principal=vote.principal
        )
        raise Refused(doubt)
    return standings
