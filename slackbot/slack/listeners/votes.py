"""From a button click to a vote."""

from __future__ import annotations

from agent.domain.request import Verdict
from agent.store.views import VoteContext
from agent.usecases import requests
from slackbot.reviewing import votes
from slackbot.slack.listeners.button_click import ButtonClick
from slackbot.slack.listeners.context import ListenerContext


async def vote_context(ctx: ListenerContext, click: ButtonClick) -> VoteContext:
    """What is known of the request before a vote. Raises Refused."""
    return await votes.vote_context(ctx.db, ctx.directory, click.value.request_id)


async def cast_vote(
    ctx: ListenerContext,
    click: ButtonClick,
    verdict: Verdict,
    *,
    path: str,
    reason: str | None = None,
    known: VoteContext | None = None,
) -> requests.VoteOutcome:
    """Count this person's word at the place where it was given. Raises as `votes.cast_vote` does."""
    return await votes.cast_vote(
        ctx.db,
        ctx.directory,
        click.person,
        click.value.request_id,
        click.value.revision,
        verdict,
        path=path,
        reason=reason,
        place=click.place,
        known=known,
    )
