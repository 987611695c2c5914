"""What a person is shown beside the acknowledgement: forms, modals on top of modals, a word about what went wrong.

A trigger lives for three seconds and works once (Slack, "Handling user interaction"), so a modal that needs
looking things up is opened empty and filled in afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slack_bolt.async_app import AsyncRespond
from slack_sdk.errors import SlackApiError, SlackClientError

from slackbot.cards import notice_modal, refusal_text, skeleton_modal
from slackbot.listeners.doors import Doors

SLACK_ERRORS = (SlackApiError, SlackClientError, OSError, TimeoutError)
NOT_COUNTED = "Not counted"

Shown = dict[str, Any]
"""A view, as the Web API takes it."""


async def show(doors: Doors, body: Mapping[str, Any], view: Shown) -> str | None:
    """Open a modal for who acted, on top of the modal that they acted in, if any. Its id; `None`: Slack did not."""
    inside = (body.get("view") or {}).get("type") == "modal"
    opening = doors.client.views_push if inside else doors.client.views_open
    try:
        answer = await opening(trigger_id=body["trigger_id"], view=view)
    except SLACK_ERRORS:
        return None
    return str((answer.get("view") or {}).get("id") or "") or None


async def show_empty(doors: Doors, body: Mapping[str, Any], heading: str) -> str | None:
    """Open a modal that says "one moment", to be drawn into. Its id; `None`: Slack did not open it."""
    return await show(doors, body, skeleton_modal(heading))


async def draw(doors: Doors, view_id: str, view: Shown) -> None:
    """Replace what a modal shows; nothing when it has been closed."""
    try:
        await doors.client.views_update(view_id=view_id, view=view)
    except SlackApiError as error:
        data = error.response.data
        if not isinstance(data, dict) or data.get("error") != "not_found":
            raise


def tell(doors: Doors, body: Mapping[str, Any], respond: AsyncRespond, sentence: str) -> None:
    """Say a sentence to who acted, and to nobody else: below the message, or in a modal where there is none."""
    if body.get("response_url"):
        doors.whisper(respond, refusal_text(sentence))
    else:
        doors.asides.start(show(doors, body, notice_modal(NOT_COUNTED, sentence)))
