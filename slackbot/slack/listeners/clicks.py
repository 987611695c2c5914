"""The buttons of cards: votes, and the forms that they open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from slack_bolt.async_app import AsyncApp

from agent.domain.audit import AuditKind
from agent.domain.errors import OUTDATED, NotFound, Refusal, Refused, sentence
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.usecases import requests
from signoff.errors import Conflict
from slackbot.cards import (
    ACTION_ALLOW_SIMILAR,
    ACTION_APPROVE_COMMENT,
    ACTION_ASK_AGAIN,
    ACTION_CHOOSE,
    ACTION_DONE,
    ACTION_EDIT,
    ACTION_GIVE_ANSWER,
    ACTION_MORE,
    ACTION_RETRY,
    ACTION_REVOKE,
    ACTION_REVOKE_LISTED,
    ACTION_VOTE,
    more_modal,
    question_modal,
    vote_modal,
)
from slackbot.masking import clean_view
from slackbot.reviewing import edits, settlements, votes
from slackbot.slack.listeners import details, grants
from slackbot.slack.listeners.buttons import ButtonClick, add_button, card_of, on_id, waiting_card_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.forms import edit_form
from slackbot.slack.listeners.modals import show

FORM_NOT_OPENED = (
    "Slack did not open the form in time, so nothing was recorded. Please press the button again."
)
NOT_EXPIRED = "Only expired requests can be asked again."
ASKED_AGAIN = "Asking again; a new card follows here if people still have to decide."
NOT_IN_DOUBT = "This was already settled, or is no longer in doubt."

Work = Callable[[ListenerContext, ButtonClick, dict[str, Any]], Awaitable[str | None]]


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the buttons of request cards: votes, edits, asking again, grants and settlements."""

    def button(action_id: str, work: Work) -> None:
        add_button(app, ctx, action_id, partial(_on_click, work))

    for verdict, action_id in ACTION_VOTE.items():
        button(action_id, _approve if verdict is Verdict.APPROVE else partial(_open_form, verdict))
    for at, action_id in enumerate(ACTION_CHOOSE):
        button(action_id, partial(_choose, at))
    button(ACTION_GIVE_ANSWER, _open_answer_form)
    button(ACTION_APPROVE_COMMENT, partial(_open_form, Verdict.APPROVE))
    button(ACTION_MORE, _open_more)
    button(ACTION_EDIT, _open_edit_form)
    button(ACTION_ASK_AGAIN, _ask_again)
    button(ACTION_ALLOW_SIMILAR, grants.open_form)
    button(ACTION_REVOKE, grants.revoke)
    add_button(app, ctx, ACTION_REVOKE_LISTED, on_id(grants.revoke_listed))
    button(ACTION_RETRY, lambda ctx, click, body: _settle(ctx, click, body, "retry"))
    button(ACTION_DONE, lambda ctx, click, body: _settle(ctx, click, body, "done"))


async def _on_click(work: Work, ctx: ListenerContext, body: dict[str, Any]) -> str | None:
    click = ButtonClick.read(body)
    if click is None:
        return OLD_BUTTON
    try:
        return await work(ctx, click, body)
    except Refused as refused:
        details.show_change(ctx, click, body, outdated=refused.code in OUTDATED)
        raise


async def _approve(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    vote = replace(click.vote(Verdict.APPROVE, click.path), form_asks_reason=True)
    try:
        voted = await votes.cast_vote(ctx.votes, ctx.directory, vote)
    except Refused as refused:
        if refused.code is not Refusal.REASON_REQUIRED:
            raise
        return await _open_form(Verdict.APPROVE, ctx, click, body)
    details.show_change(ctx, click, body)
    if voted.repeated and voted.status is RequestStatus.WAITING:
        return sentence(Refusal.SAME_VOTE)
    return None


async def _choose(at: int, ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    """One press on an option is the answer. Its number counts: masked, as on the card, it may be shorter or longer."""
    view = await card_of(ctx, click)
    form = view.answer_form
    options = form.fields[0].options if form and form.is_choice else ()
    if form is None or at >= len(options):
        return OLD_BUTTON
    vote = click.vote(Verdict.ANSWER, click.path, answer=form.read(options[at]))
    voted = await votes.cast_vote(ctx.votes, ctx.directory, vote)
    details.show_change(ctx, click, body)
    if voted.repeated and voted.status is RequestStatus.WAITING:
        return sentence(Refusal.SAME_VOTE)
    return None


async def _open_answer_form(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    view = await clean_view(await waiting_card_of(ctx, click))
    if view.answer_form is None:
        return OLD_BUTTON
    return await show(ctx, body, question_modal(view, click.carry()), FORM_NOT_OPENED)


async def _open_more(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    view = await clean_view(await waiting_card_of(ctx, click))
    return await show(ctx, body, more_modal(view, click.carry()), FORM_NOT_OPENED)


async def _open_edit_form(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    try:
        form = await edit_form(ctx, await waiting_card_of(ctx, click), click)
    except NotFound:
        return edits.NOT_SERVED
    return await show(ctx, body, form, FORM_NOT_OPENED)


async def _open_form(
    verdict: Verdict, ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]
) -> str | None:
    """Look nobody up: a trigger lives for three seconds. The submission checks rights."""
    view = await clean_view(await waiting_card_of(ctx, click))
    form = vote_modal(verdict, view, click.carry(), click.person)
    return await show(ctx, body, form, FORM_NOT_OPENED)


async def _ask_again(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    await _acted_on(ctx, click, AuditKind.ASK_AGAIN_REFUSED)
    by = await ctx.directory.identify(click.person)
    try:
        await requests.ask_again(ctx.db, click.value.request_id, by, path=click.path)
    except Conflict:
        details.show_change(ctx, click, body, outdated=True)
        return NOT_EXPIRED
    details.show_change(ctx, click, body)
    return ASKED_AGAIN  # the expired request's card stays unchanged


async def _settle(
    ctx: ListenerContext, click: ButtonClick, body: dict[str, Any], verdict: Literal["retry", "done"]
) -> str | None:
    view = await _acted_on(ctx, click, AuditKind.SETTLEMENT_REFUSED)
    if view.execution is None or view.execution.id != click.value.execution_id:
        details.show_change(ctx, click, body, outdated=True)
        return NOT_IN_DOUBT
    try:
        needed = await settlements.settle(ctx.db, ctx.directory, view, click.person, verdict, click.path)
    except Conflict:
        details.show_change(ctx, click, body, outdated=True)
        return NOT_IN_DOUBT
    details.show_change(ctx, click, body)
    return sentence(Refusal.SAME_VOTE) if needed and click.person in view.execution.retry_voters else None


async def _acted_on(ctx: ListenerContext, click: ButtonClick, kind: AuditKind) -> RequestView:
    """`card_of`, recording refusals as `kind`, including those of a button in another place."""
    try:
        return await card_of(ctx, click)
    except Refused as refused:
        if refused.code is Refusal.WRONG_PLACE:
            value = click.value
            await requests.record_refusal(
                ctx.db, value.request_id, value.revision, click.person, refused.code, click.path, kind
            )
        raise
