"""Edit: a form made from the tool's own schema; submitting it has the change judged anew before anybody approves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus, RequestView
from agent.usecases.requests import EditOutcome
from slackbot.cards import edit_modal, read_edit
from slackbot.masking import clean_view
from slackbot.reviewing import edits
from slackbot.slack.listeners.button_click import ButtonClick
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import Shown

PATH = "slack_edit"
NOT_SERVED = "The tool of this request is not served by this process, so it cannot be edited here."


def schema_for(ctx: ListenerContext, view: RequestView) -> Mapping[str, Any]:
    """The JSON schema of the tool's arguments. Raises NotFound when this process does not serve the tool."""
    return edits.schema_for(ctx.agents, view)


async def form_for(ctx: ListenerContext, view: RequestView, click: ButtonClick) -> Shown:
    """The form. Raises Refused when there is nothing to edit (any more), and NotFound."""
    _check(view, click)
    return edit_modal(await clean_view(view), schema_for(ctx, view), click.carry())


async def save(
    ctx: ListenerContext, view: RequestView, click: ButtonClick, arguments: Mapping[str, Any]
) -> EditOutcome:
    """Have the arguments judged and recorded as a new revision. Raises as `reviewing.edits.save` does."""
    return await edits.save(
        ctx.services,
        ctx.directory,
        click.person,
        view,
        click.value.revision,
        arguments,
        path=PATH,
        place=click.place,
    )


def read_form(
    values: Mapping[str, Any], schema: Mapping[str, Any], view: RequestView
) -> tuple[dict[str, Any], dict[str, str]]:
    """What was typed, as arguments, and errors by block_id."""
    return read_edit(values, schema, view.action)


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
