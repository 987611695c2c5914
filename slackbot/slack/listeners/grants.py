"""Buttons and forms of grants: *Approve and allow similar…* in two steps, and *Revoke*."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from agent.domain.errors import GrantRefused, NotFound, Refused
from agent.domain.grants import limits_problem
from agent.domain.request import Verdict
from agent.domain.short_ids import short_id
from slackbot.cards.grant_form import PREFIX, entered_grant, grant_modal, read_grant
from slackbot.cards.grant_preview import MAX_CARRIED, MAX_LINKS, preview_modal
from slackbot.reviewing import grants
from slackbot.slack.listeners import details
from slackbot.slack.listeners.buttons import ButtonClick, card_of, person_of, waiting_card_of
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import FormError, show

NO_GRANT = "No grant was given"
PATH = "slack_grant"
LIST_PATH = "slack_list"
HOME_PATH = "slack_home"
REVOKED = "Revoked: people are asked about such calls again."
TOO_LONG = "This is more than the form can hold; free fewer fields, or write a shorter note."
FORM_NOT_OPENED = (
    "Slack did not open the form in time, so nothing was recorded. Please press the button again."
)


async def open_form(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    """Open a waiting request's grant form; returns a sentence if no grant is allowed. Raises Refused."""
    view = await waiting_card_of(ctx, click)
    await grants.check_giver(ctx.directory, click.person, view)
    try:
        limits = await grants.limits_for(ctx.services, view)
    except GrantRefused as refused:
        return refused.sentence
    form = grant_modal(view, limits, grants.choices_of(ctx.agents, view), click.carry())
    return await show(ctx, body, form, FORM_NOT_OPENED)


async def preview(ctx: ListenerContext, click: ButtonClick, submitted: dict[str, Any]) -> FormError:
    """The second step: nothing counts yet."""
    view = await card_of(ctx, click)
    await grants.check_giver(ctx.directory, click.person, view)
    entered = entered_grant(submitted)
    carry = f"{click.carry()}\n{entered}"
    if len(carry) > MAX_CARRIED:
        return FormError({f"{PREFIX}:lasts": TOO_LONG})
    terms, errors = read_grant(view, json.loads(entered), grants.choices_of(ctx.agents, view))
    if terms is None:
        return FormError(errors)
    try:
        limits = await grants.limits_for(ctx.services, view)
    except GrantRefused as refused:
        return FormError(notice=refused.sentence)
    problem = limits_problem(limits, terms.lasts, terms.max_uses, terms.sum_of, terms.max_sum)
    if problem is not None:
        return FormError({f"{PREFIX}:{'lasts' if 'last' in problem else 'uses'}": problem})
    shown, rejected = await grants.preview(ctx.db, view, terms)
    threads = {
        each.id: (each.channel_id, each.message_ts) for each in rejected[:MAX_LINKS] if each.message_ts
    }
    links = await ctx.permalinks.of([(channel, ts) for channel, ts in threads.values() if ts])
    named = tuple(
        (f"request {short_id(each.id)}", links.get((each.channel_id, each.message_ts or "")))
        for each in rejected[:MAX_LINKS]
    )
    return FormError(next_step=preview_modal(view, terms, replace(shown, links=named), carry))


async def save(ctx: ListenerContext, click: ButtonClick, submitted: dict[str, Any]) -> FormError | None:
    """Approve the request and propose the grant as previewed; returns what to show if that is refused."""
    view = await card_of(ctx, click)
    _, _, entered = (submitted.get("private_metadata") or "").partition("\n")
    outcome = json.loads(entered)
    terms, errors = read_grant(view, outcome, grants.choices_of(ctx.agents, view))
    if terms is None:
        return FormError(notice=next(iter(errors.values())))
    vote = click.vote(Verdict.APPROVE, PATH, outcome.get("reason"))
    try:
        await grants.save(ctx.services, ctx.votes, ctx.directory, vote, view, terms)
    except GrantRefused as refused:
        return FormError(notice=refused.sentence, heading=NO_GRANT)
    return None


async def revoke(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> str | None:
    """Revoke the grant of a card; returns a sentence if it had ended, or the person may not revoke it."""
    view = await card_of(ctx, click)
    outcome = await _revoke(ctx, body, view.id, click.path)
    details.show_change(ctx, click, body)
    return outcome


async def revoke_listed(ctx: ListenerContext, body: dict[str, Any], grant_id: UUID) -> str | None:
    """Revoke a grant from a list or App Home; returns the reply, or None where App Home shows the change."""
    if (body.get("view") or {}).get("type") == "home":
        outcome = await _revoke(ctx, body, grant_id, HOME_PATH)
        ctx.homes.refresh(person_of(body))
        return outcome
    return await _revoke(ctx, body, grant_id, LIST_PATH) or REVOKED


async def _revoke(ctx: ListenerContext, body: dict[str, Any], grant_id: UUID, path: str) -> str | None:
    try:
        ended = await grants.revoke(ctx.db, ctx.directory, person_of(body), grant_id, path)
    except NotFound:
        return grants.ENDED
    except Refused as refused:
        return refused.sentence
    return None if ended else grants.ENDED
