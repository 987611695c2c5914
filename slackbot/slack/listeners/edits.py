"""Edit: a form made from the tool's own schema."""

from __future__ import annotations

from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus, RequestView
from agent.runtime.edit_judgement import schema_of
from slackbot.cards import edit_modal
from slackbot.masking import clean_view
from slackbot.slack.listeners.button_click import ButtonClick
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import Shown

PATH = "slack_edit"


async def form_for(ctx: ListenerContext, view: RequestView, click: ButtonClick) -> Shown:
    """The form. Raises Refused when there is nothing to edit (any more), and NotFound."""
    _check(view, click)
    return edit_modal(await clean_view(view), schema_of(ctx.agents, view), click.carry())


def _check(view: RequestView, click: ButtonClick) -> None:
    if not view.allow_edit:
        raise Refused(Refusal.EDIT_NOT_ALLOWED)
    if view.status is not RequestStatus.WAITING and view.decision is not None:
        decision = view.decision
        raise Refused(
            Refusal.ALREADY_DECIDED, outcome=decision.outcome.value, by=decision.person, at=decision.at
        )
    if click.value.revision != view.revision:
        raise Refused(Refusal.STALE_REVISION)
