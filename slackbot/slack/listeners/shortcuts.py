"""Shortcuts: they work in threads, where commands do not."""

from __future__ import annotations

from functools import partial
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from slackbot.cards import agent_modal, skeleton_modal
from slackbot.cards.quotation import Carried, Quotation
from slackbot.slack.listeners import agent_form, listing
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.middleware import objection
from slackbot.slack.listeners.modals import show, tell
from slackbot.slack.listeners.run_starts import author_of, unescape

MY_APPROVALS = "signoff:my_approvals"
QUOTE_MESSAGE = "signoff:start_agent_on_message"

LIST_NOT_OPENED = "Slack did not open the list in time. Please try again, or type `/approvals`."
NO_WORDS = "This message has no text that an agent could read."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register both shortcuts: the list of my approvals, and an agent on a message."""

    @app.shortcut(MY_APPROVALS)
    async def my_approvals(ack: AsyncAck, body: dict[str, Any]) -> None:
        draw_list = partial(listing.in_modal, ctx, body, listing.TODO, {})
        not_opened = ctx.commands.spelled(LIST_NOT_OPENED)
        refusal = await show(ctx, body, skeleton_modal(listing.HEADING), not_opened, draw_list)
        await ack()
        if refusal:
            tell(ctx, body, refusal)

    @app.shortcut(QUOTE_MESSAGE)
    async def quote_message(ack: AsyncAck, body: dict[str, Any]) -> None:
        message = body["message"]
        text = unescape(message.get("text") or "").strip()
        refusal = objection(text) if text else NO_WORDS
        if refusal is None:
            quotation = Quotation(text, None if message.get("bot_id") else author_of(message, ctx))
            form = agent_modal(agent_form.forms(ctx), carried=Carried(body["channel"]["id"], quotation))
            refusal = await show(ctx, body, form, ctx.commands.spelled(agent_form.FORM_NOT_OPENED))
        await ack()
        if refusal:
            tell(ctx, body, refusal)
