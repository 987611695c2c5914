"""A reviewer's edit is evaluated and recorded, on every path alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.errors import OutdatedPolicy, Refusal, Refused
from agent.domain.request import Place
from agent.domain.request_view import RequestView
from agent.runtime.judging.edits import judge_edit
from agent.runtime.services import Services
from agent.usecases import requests
from agent.usecases.requests import EditAttempt, EditOutcome
from signoff.values import Person
from slackbot.slack_api.directory import Directory

NOT_SERVED = "This process does not serve the tool of this request, so the request cannot be edited here."
NOTHING_CHANGED = "Nothing was changed, so the request stays as it is."


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
    """Evaluate the arguments and record them as a new revision.

    People who may not edit are refused before the tool's look-up runs. ``place``: of the pressed button. Raises
    Refused (recorded), MalformedArguments for a value that the tool does not accept, and NotFound.
    """
    editor = await directory.standing(person, view.approvers, view.channel_id)
    attempt = EditAttempt(view.id, revision, editor, path, place)
    await requests.check_edit(services.db, attempt)

    async def judge_and_edit() -> EditOutcome:
        return await requests.edit(services.db, await judge_edit(services, view, arguments, attempt))

    try:
        return await services.policies.judged(judge_and_edit)
    except OutdatedPolicy:
        raise Refused(Refusal.EDIT_UNCHECKED) from None
