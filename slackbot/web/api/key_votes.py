"""Votes by API key are the owner's votes; keys that can ask cannot vote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from agent.domain.answers import AnswerValue
from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus, Verdict
from agent.usecases import requests
from agent.usecases.requests import VoteOutcome
from signoff.values import Person
from slackbot.cards import unreadable
from slackbot.masking import clean_view
from slackbot.reviewing import votes
from slackbot.reviewing.answers import read_answer
from slackbot.reviewing.votes import NewVote
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised

PATH = "api"
"""For the audit log."""


async def key_owner(ctx: WebContext, principal: Principal, asked: Sequence[tuple[UUID, int]]) -> Person:
    """Raises Refused (recorded) for a key that can ask, otherwise ProblemRaised."""
    if principal.may(Scope.DECIDE) and principal.owner is not None:
        return principal.owner
    if principal.may(Scope.REQUEST):
        for request_id, revision in asked:
            await requests.record_refusal(
                ctx.db, request_id, revision, principal.name, Refusal.AGENT_PRINCIPAL, PATH
            )
        raise Refused(Refusal.AGENT_PRINCIPAL)
    words = f"The key {principal.key} does not have the scope decide."
    raise ProblemRaised(403, "scope-missing", "Scope missing", words)


async def cast_key_vote(
    ctx: WebContext,
    principal: Principal,
    person: Person,
    request_id: UUID,
    verdict: Verdict,
    reason: str | None,
    *,
    named: int | None,
    present: int,
    answer: Any = None,
) -> VoteOutcome:
    """Vote for the key's owner. ``named``: the caller's revision, ``present``: the latest.

    An approval without a revision applies to the first: nobody approves what they may not have seen. A rejection
    applies to every revision. Approvals that a card would not offer are refused. Raises UnfitAnswer, too.
    """
    revision = named or (1 if verdict is Verdict.APPROVE else present)
    if verdict is Verdict.APPROVE and await _is_unreadable(ctx, request_id):
        refusal = Refusal.UNREADABLE
        await requests.record_refusal(
            ctx.db, request_id, revision, person, refusal, PATH, principal=principal.name
        )
        raise Refused(refusal)
    said = await _read(ctx, request_id, answer) if verdict is Verdict.ANSWER else None
    vote = NewVote(person, request_id, revision, verdict, PATH, reason, principal=principal.name, answer=said)
    return await votes.cast_vote(ctx.votes, ctx.slack.directory, vote)


async def _read(ctx: WebContext, request_id: UUID, answer: Any) -> AnswerValue | None:
    view = await ctx.snapshots.get(request_id)
    if view is None or view.answer_form is None:
        return None  # the vote is refused
    return await read_answer(ctx.slack.directory, view.answer_form, answer)


async def _is_unreadable(ctx: WebContext, request_id: UUID) -> bool:
    view = await ctx.snapshots.get(request_id)
    if view is None or view.status is not RequestStatus.WAITING:
        return False
    return unreadable(await clean_view(view)) is not None
