from __future__ import annotations

from agent.domain.errors import Refusal, Refused
from agent.domain.request_view import RequestView
from agent.runtime.judging.edits import schema_of
from slackbot.cards import edit_modal
from slackbot.masking import clean_view
from slackbot.slack.listeners.button_click import ButtonClick
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import Shown

PATH = "slack_edit"


async def form_for(ctx: ListenerContext, view: RequestView, click: ButtonClick) -> Shown:
    """Raises Refused if edits are not allowed, and NotFound."""
    if not view.rule.allow_edit:
        raise Refused(Refusal.EDIT_NOT_ALLOWED)
    return edit_modal(await clean_view(view), schema_of(ctx.agents, view), click.carry())
