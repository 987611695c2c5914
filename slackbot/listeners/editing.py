"""Edit: a form made from the tool's own schema; submitting it has the change judged anew before anybody approves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.approvals import Edited
from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus, RequestView
from slackbot import revising
from slackbot.cards import edit_modal, read_edit
from slackbot.listeners.doors import Doors
from slackbot.listeners.screens import Shown
from slackbot.listeners.voting import Press
from slackbot.secrets import clean_view

PATH = "slack_edit"
NOT_SERVED = "The tool of this request is not served by this process, so it cannot be edited here."


def schema_for(doors: Doors, view: RequestView) -> Mapping[str, Any]:
    """The JSON schema of the tool's arguments. Raises NotFound when this process does not serve the tool."""
    return revising.schema_for(doors.agents, view)


async def form_for(doors: Doors, view: RequestView, press: Press) -> Shown:
    """The form. Raises Refused when there is nothing to edit (any more), and NotFound."""
    _check(view, press)
    return edit_modal(await clean_view(view), schema_for(doors, view), press.carry())


async def save(doors: Doors, view: RequestView, press: Press, arguments: Mapping[str, Any]) -> Edited:
    """Have the arguments judged and recorded as a new revision. Raises as `revising.save` does."""
    return await revising.save(
        doors.services,
        doors.directory,
        press.person,
        view,
        press.value.revision,
        arguments,
        path=PATH,
        place=press.place,
    )


def entered(
    values: Mapping[str, Any], schema: Mapping[str, Any], view: RequestView
) -> tuple[dict[str, Any], dict[str, str]]:
    """What was typed, as arguments, and errors by block_id."""
    return read_edit(values, schema, view.action)


def _check(view: RequestView, press: Press) -> None:
    if not view.allow_edit:
        raise Refused(Refusal.EDIT_NOT_ALLOWED)
    if view.status is not RequestStatus.WAITING and view.decision is not None:
        decision = view.decision
        raise Refused(
            Refusal.ALREADY_DECIDED, outcome=decision.outcome.value, by=decision.person, at=decision.at
        )
    if press.value.revision != view.revision:
        raise Refused(Refusal.STALE_REVISION)
