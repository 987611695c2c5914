"""Edit: a form made from the tool's own schema; submitting it has the change judged anew before anybody approves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent import approvals
from agent.approvals import Edit, Edited
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import RequestStatus, RequestView
from agent.runtime import judging
from agent.runtime.judging import Revised
from slackbot.cards import edit_modal, read_edit
from slackbot.listeners.doors import Doors
from slackbot.listeners.screens import Shown
from slackbot.listeners.voting import Press
from slackbot.secrets import clean_view

PATH = "slack_edit"
NOT_SERVED = "The tool of this request is not served by this process, so it cannot be edited here."


def schema_for(doors: Doors, view: RequestView) -> Mapping[str, Any]:
    """The JSON schema of the tool's arguments. Raises NotFound when this process does not serve the tool."""
    agent = doors.agents.find(view.agent)
    tool = agent.tool(view.action.tool) if agent else None
    if tool is None:
        raise NotFound(f"the tool {view.action.tool} is not served here")
    schema: Mapping[str, Any] = tool.offered["function"]["parameters"]
    return schema


async def form_for(doors: Doors, view: RequestView, press: Press) -> Shown:
    """The form. Raises Refused when there is nothing to edit (any more), and NotFound."""
    _check(view, press)
    return edit_modal(await clean_view(view), schema_for(doors, view), press.carry())


async def save(doors: Doors, view: RequestView, press: Press, arguments: Mapping[str, Any]) -> Edited:
    """Have the arguments judged and recorded as a new revision.

    Raises Refused (recorded), MalformedArguments for a value that the tool does not take, and NotFound.
    """
    editor = await doors.directory.standing(press.person, view.approvers, view.channel_id)
    # The tool's look-up is not run for somebody who may not edit: the use case refuses and records them.
    revised = (
        await judging.revise(doors.services, view, arguments)
        if _may_try(view, press, editor)
        else _same(view)
    )
    return await approvals.edit(
        doors.db,
        Edit(
            request_id=view.id,
            revision=press.value.revision,
            editor=editor,
            action=revised.action,
            facts=revised.facts,
            rule=revised.rule,
            description=revised.description,
            path=PATH,
            place=press.place,
        ),
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


def _may_try(view: RequestView, press: Press, editor: Standing) -> bool:
    waits = view.status is RequestStatus.WAITING and press.value.revision == view.revision
    own = view.prevent_self_review and editor.person == view.requester
    return waits and view.allow_edit and not own and editor.refusal is None and bool(editor.roles)


def _same(view: RequestView) -> Revised:
    return Revised(view.action, view.facts, None, view.description)
