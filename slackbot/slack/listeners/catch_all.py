"""Answer payloads without another listener: old buttons and forms get a reply, and Slack sees no failure."""

from __future__ import annotations

import re

from slack_bolt.async_app import AsyncAck, AsyncApp

from slackbot.cards import ACTION_LINK, notice_modal
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import NOT_RECORDED, tell

OLD_BUTTON = "This button comes from an older version of Signoff and no longer works. Nothing was recorded."
OLD_FORM = "This form comes from an older version of Signoff and no longer works. Nothing was recorded."
_ANY = re.compile("")


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register last: Bolt asks listeners in this order."""

    async def old_button(ack: AsyncAck, body: dict[str, object]) -> None:
        await ack()
        if not _only_a_link(body):
            tell(ctx, body, OLD_BUTTON)

    async def old_form(ack: AsyncAck) -> None:
        await ack(response_action="update", view=notice_modal(NOT_RECORDED, OLD_FORM))

    async def nothing(ack: AsyncAck) -> None:
        await ack()

    app.action(ACTION_LINK)(nothing)
    app.action(_ANY)(old_button)
    app.view_submission(_ANY)(old_form)
    app.view_closed(_ANY)(nothing)
    app.shortcut(_ANY)(nothing)
    app.options(_ANY)(nothing)
    app.event(_ANY)(nothing)


def _only_a_link(body: dict[str, object]) -> bool:
    """A `url` button opens in the browser and also sends an action."""
    actions = body.get("actions")
    return isinstance(actions, list) and bool(actions) and "url" in actions[0]
