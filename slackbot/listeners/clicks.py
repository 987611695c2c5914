"""The buttons of a request: commit first, then acknowledge, so that what looks like success is success."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond

from agent import approvals
from agent.domain.audit import AuditKind
from agent.domain.errors import NotFound, Refusal, Refused, sentence
from agent.domain.request import RequestStatus, RequestView, Verdict
from signoff.errors import Conflict
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_APPROVE_COMMENT,
    ACTION_ASK_AGAIN,
    ACTION_DONE,
    ACTION_EDIT,
    ACTION_REJECT,
    ACTION_RETRY,
    approve_modal,
    reject_modal,
)
from slackbot.listeners import details, editing
from slackbot.listeners.catch_all import OLD_BUTTON
from slackbot.listeners.doors import NOT_KNOWN, Doors
from slackbot.listeners.screens import Shown, show, tell
from slackbot.listeners.voting import Press, card_of, cast, paper_of
from slackbot.secrets import clean_view

FORM_NOT_OPENED = (
    "Slack did not open the form in time, so nothing was recorded. Please press the button again."
)
NOT_EXPIRED = "This request can not be asked again: only one that nobody decided in time can be."
ASKED_AGAIN = "This is being asked again; a new card follows here if people still have to decide."
NOT_IN_DOUBT = "This was settled already, or it is not in doubt any more."
GONE = "There is nothing like that any more."

Work = Callable[[Doors, Press, dict[str, Any]], Awaitable[str | None]]
"""Does what a button is for; returns what the person should be told beyond what the surface will show."""


def register(app: AsyncApp, doors: Doors) -> None:
    """Approve, Reject, Edit, Ask again, Retry, Mark as done."""

    def button(action_id: str, work: Work) -> None:
        @app.action(action_id)
        async def pressed(ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
            await _answer(doors, ack, body, respond, work)

    button(ACTION_APPROVE, _approve)
    button(ACTION_APPROVE_COMMENT, _open_approve_form)
    button(ACTION_REJECT, _open_reject_form)
    button(ACTION_EDIT, _open_edit_form)
    button(ACTION_ASK_AGAIN, _ask_again)
    button(ACTION_RETRY, lambda doors, press, body: _settle(doors, press, body, "retry"))
    button(ACTION_DONE, lambda doors, press, body: _settle(doors, press, body, "done"))


async def _answer(
    doors: Doors, ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond, work: Work
) -> None:
    """Do the work of a button, then acknowledge. A failure is not acknowledged: Slack shows it on the button."""
    press = Press.read(body)
    if press is None:
        told: str | None = OLD_BUTTON
    else:
        try:
            async with asyncio.timeout(doors.budget):
                told = await work(doors, press, body)
        except Refused as refused:
            told = refused.sentence
            details.show_change(doors, press, body)  # what was shown there may be out of date
        except Exception:
            tell(doors, body, respond, NOT_KNOWN)
            raise
    await ack()
    if told:
        tell(doors, body, respond, told)


async def _approve(doors: Doors, press: Press, body: dict[str, Any]) -> str | None:
    paper = await paper_of(doors, press)
    if Verdict.APPROVE.value in paper.reason_required:
        return await _open_approve_form(doors, press, body)
    voted = await cast(doors, press, Verdict.APPROVE, path=press.path, paper=paper)
    details.show_change(doors, press, body)
    if voted.repeated and voted.status is RequestStatus.WAITING:
        return sentence(Refusal.SAME_VOTE)
    return None


async def _open_approve_form(doors: Doors, press: Press, body: dict[str, Any]) -> str | None:
    return await _open_form(doors, press, body, approve_modal)


async def _open_reject_form(doors: Doors, press: Press, body: dict[str, Any]) -> str | None:
    return await _open_form(doors, press, body, reject_modal)


async def _open_edit_form(doors: Doors, press: Press, body: dict[str, Any]) -> str | None:
    try:
        form = await editing.form_for(doors, await card_of(doors, press), press)
    except NotFound:
        return editing.NOT_SERVED
    return None if await show(doors, body, form) else FORM_NOT_OPENED


async def _open_form(
    doors: Doors, press: Press, body: dict[str, Any], form: Callable[[RequestView, str], Shown]
) -> str | None:
    """A trigger lives for three seconds, so nobody is looked up first: the form's submission is judged."""
    view = await clean_view(await card_of(doors, press))
    return None if await show(doors, body, form(view, press.carry())) else FORM_NOT_OPENED


async def _ask_again(doors: Doors, press: Press, body: dict[str, Any]) -> str | None:
    await _acted_on(doors, press, AuditKind.ASK_AGAIN_REFUSED)
    by = await doors.directory.identify(press.person)
    try:
        await approvals.ask_again(doors.db, press.value.request_id, by, path=press.path)
    except Conflict:
        return NOT_EXPIRED
    except NotFound:
        return GONE
    details.show_change(doors, press, body)
    return ASKED_AGAIN  # the card of the expired request stays as it is


async def _settle(
    doors: Doors, press: Press, body: dict[str, Any], verdict: Literal["retry", "done"]
) -> str | None:
    view = await _acted_on(doors, press, AuditKind.SETTLEMENT_REFUSED)
    if view.execution is None or view.execution.id != press.value.execution_id:
        return NOT_IN_DOUBT
    settler = await doors.directory.standing(press.person, view.approvers, view.channel_id)
    try:
        await approvals.settle(doors.db, view.execution.id, settler, verdict, path=press.path)
    except Conflict:
        return NOT_IN_DOUBT
    except NotFound:
        return GONE
    details.show_change(doors, press, body)
    return None


async def _acted_on(doors: Doors, press: Press, kind: AuditKind) -> RequestView:
    """`card_of`, for an act whose refusals are recorded as `kind`: so is a button from another place."""
    try:
        return await card_of(doors, press)
    except Refused as refused:
        if refused.code is Refusal.WRONG_PLACE:
            value = press.value
            await approvals.record_refusal(
                doors.db, value.request_id, value.revision, press.person, refused.code, press.path, kind
            )
        raise
