"""The form that decides several requests: opened from a list, a digest or App Home, and sent."""

from __future__ import annotations

from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.database.errors import DatabaseRefuses
from agent.domain.errors import Refusal, Refused
from agent.domain.verdicts import VERDICTS
from slackbot.cards import notice_modal, parse_page_value, skeleton_modal
from slackbot.cards.together_form import (
    HEADING,
    PAGE_OF_TOGETHER,
    nothing_together,
    read_together,
    together_modal,
    together_outcome,
)
from slackbot.cards.values import ACTION_DECIDE_TOGETHER, CALLBACK_TOGETHER, REASON_BLOCK
from slackbot.reviewing.members import check_member
from slackbot.reviewing.together import FormDecision, Query, decide, open_form
from slackbot.reviewing.votes import OUTCOME_UNKNOWN
from slackbot.slack.listeners import modals
from slackbot.slack.listeners.buttons import person_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON, OLD_FORM
from slackbot.slack.listeners.context import ARRIVED, ListenerContext, log_failed
from slackbot.slack.listeners.modals import NOT_RECORDED, Shown, on_last_input, show, tell

PATH = "slack_together"

NOT_OPENED = "Slack did not open the form in time, so nothing was recorded. Please press the button again."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the buttons that open the form, and its submission."""

    @app.action(ACTION_DECIDE_TOGETHER)
    async def opened(ack: AsyncAck, body: dict[str, Any]) -> None:
        refusal = await _open(ctx, body)
        await ack()
        if refusal:
            tell(ctx, body, refusal)

    @app.view(CALLBACK_TOGETHER)
    async def submitted(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
        await ack(**await _answer(ctx, body, view))


async def _open(ctx: ListenerContext, body: dict[str, Any]) -> str | None:
    """Fill the modal that the button is in, or a new one."""
    read = parse_page_value(body["actions"][0].get("value"))
    if read is None or read[0] != PAGE_OF_TOGETHER:
        return OLD_BUTTON

    async def fill(view_id: str) -> None:
        await modals.fill(ctx, view_id, HEADING, _form(ctx, body, read[1]))

    here = body.get("view") or {}
    if here.get("type") == "modal":
        ctx.background.start(fill(here["id"]))
        return None
    return await show(ctx, body, skeleton_modal(HEADING), NOT_OPENED, fill)


async def _form(ctx: ListenerContext, body: dict[str, Any], query: Query) -> Shown:
    person = person_of(body)
    await check_member(ctx.directory, person)
    try:
        form, left_out = await open_form(ctx.db, ctx.directory, person, query)
    except ValueError:
        raise Refused(Refusal.UNKNOWN_REQUEST) from None
    return together_modal(form, person) if form else nothing_together(left_out)


async def _answer(ctx: ListenerContext, body: dict[str, Any], view: dict[str, Any]) -> dict[str, Any]:
    """Return what the acknowledgement says: errors at the inputs, or what became of each request."""
    form = read_together(view)
    if form is None:
        return {"response_action": "update", "view": notice_modal(NOT_RECORDED, OLD_FORM)}
    if form.verdict is None or form.errors:
        return {"response_action": "errors", "errors": dict(form.errors)}
    try:
        decision = FormDecision(person_of(body), form.id, form.verdict, form.reason, PATH, ARRIVED.get())
        outcomes = await decide(ctx.votes, ctx.directory, decision, form.rows)
    except Refused as refused:
        missing = refused.code is Refusal.REASON_REQUIRED
        said = VERDICTS[form.verdict].reason_missing if missing else refused.sentence
        return {"response_action": "errors", "errors": {REASON_BLOCK: said}}
    except Exception as error:
        # The form stays open with its ticks, and says that it may be sent again.
        log_failed("a form failed", error)
        said = error.sentence if isinstance(error, DatabaseRefuses) else OUTCOME_UNKNOWN
        return {"response_action": "errors", "errors": on_last_input(view, said)}
    return {"response_action": "update", "view": together_outcome(outcomes, form.query)}
