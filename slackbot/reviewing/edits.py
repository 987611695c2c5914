"""From a reviewer's changed arguments to a new revision, whichever door they came through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.people import Standing
from agent.domain.request import Place, RequestStatus, RequestView
from agent.runtime import judgement
from agent.runtime.judgement import JudgedEdit
from agent.runtime.services import Services
from agent.usecases import requests
from agent.usecases.requests import Edit, EditOutcome
from signoff.values import Person
from slackbot.slack_api.directory import Directory

NOT_SERVED = "The tool of this request is not served by this process, so it cannot be edited here."
NOTHING_CHANGED = "Nothing is different, so everything stays as it was."


async def save(
    services: Services,
    directory: Directory,
    person: Person,
    view: RequestView,
    revision: int,
    arguments: Mapping[str, Any],
    *,
    path: str,
    place: Place | None = None,
) -> EditOutcome:
    """Have the arguments judged and recorded as a new revision.

    ``path`` names the door for the record; ``place`` is where a card's button was pressed, ``None`` at doors
    without cards. Raises Refused (recorded), MalformedArguments for a value that the tool does not take, and NotFound.
    """
    editor = await directory.standing(person, view.approvers, view.channel_id)
    # The tool's look-up is not run for somebody who may not edit: the use case refuses and records them.
    revised = (
        await judgement.judge_edit(services, view, arguments)
        if _may_try(view, revision, editor)
        else _same(view)
    )
    return await requests.edit(
        services.db,
        Edit(
            request_id=view.id,
            revision=revision,
            editor=editor,
            action=revised.action,
            facts=revised.facts,
            rule=revised.rule,
            description=revised.description,
            path=path,
            place=place,
            signature_digest=revised.signature_digest,
        ),
    )


def _may_try(view: RequestView, revision: int, editor: Standing) -> bool:
    waits = view.status is RequestStatus.WAITING and revision == view.revision
    own = view.prevent_self_review and editor.person == view.requester
    return waits and view.allow_edit and not own and editor.refusal is None and bool(editor.roles)


def _same(view: RequestView) -> JudgedEdit:
    return JudgedEdit(view.action, view.facts, None, view.description)
