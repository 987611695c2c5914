"""The buttons below lists and pages: what they lead to is looked up anew for who presses them."""

from __future__ import annotations

from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond

from slackbot.cards import ACTION_PAGE, ACTION_PAGE_BACK, PAGE_OF_DETAILS, parse_id, parse_page_value
from slackbot.listeners import details
from slackbot.listeners.catch_all import OLD_BUTTON
from slackbot.listeners.doors import Doors
from slackbot.listeners.screens import tell
from slackbot.listeners.voting import person_of


def register(app: AsyncApp, doors: Doors) -> None:
    """Forward and back."""

    async def turned(ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
        await ack()
        read = parse_page_value(body["actions"][0].get("value"))
        if read is None or not _turn(doors, body, *read):
            tell(doors, body, respond, OLD_BUTTON)

    app.action(ACTION_PAGE)(turned)
    app.action(ACTION_PAGE_BACK)(turned)


def _turn(doors: Doors, body: dict[str, Any], what: str, query: dict[str, str]) -> bool:
    """Begin to draw the page. False: it is none of ours."""
    view = body.get("view") or {}
    if what == PAGE_OF_DETAILS and view.get("type") == "modal":
        request_id, page = parse_id(query.get("request")), query.get("page", "")
        if request_id is None or not page.isdecimal():
            return False
        doors.asides.start(details.fill(doors, view["id"], person_of(body), request_id, int(page[:6])))
        return True
    return False
