"""The reason for a rejection: submitting the form is the vote, and what is wrong is said in the form."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.errors import Refused
from agent.domain.request import Verdict
from agent.runtime.wording import storable
from slackbot.cards import CALLBACK_REJECT, notice_modal, reason_of
from slackbot.cards.values import REASON_BLOCK
from slackbot.listeners.catch_all import OLD_FORM
from slackbot.listeners.doors import NOT_KNOWN, Doors
from slackbot.listeners.voting import Press, cast

log = logging.getLogger(__name__)

NOT_COUNTED = "Not counted"


def register(app: AsyncApp, doors: Doors) -> None:
    """The reject form."""

    @app.view(CALLBACK_REJECT)
    async def rejected(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
        press = Press.resume(body, view.get("private_metadata") or "")
        if press is None:
            await ack(response_action="update", view=notice_modal(NOT_COUNTED, OLD_FORM))
            return
        try:
            async with asyncio.timeout(doors.budget):
                reason = storable(reason_of(view) or "") or None
                await cast(doors, press, Verdict.REJECT, path="slack_modal", reason=reason)
        except Refused as refused:
            await ack(response_action="update", view=notice_modal(NOT_COUNTED, refused.sentence))
        except Exception as error:
            # The form stays open with what was typed, and says that it may be sent again.
            log.exception(
                "a rejection failed", extra={"action": "listener_failed", "kind": type(error).__name__}
            )
            await ack(response_action="errors", errors={REASON_BLOCK: NOT_KNOWN})
        else:
            await ack()
