"""Replies to one person beside the acknowledgement. Modals open empty before look-ups: triggers live three seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent.database.background import start_task
from agent.database.errors import DatabaseError, DatabaseRefuses
from agent.database.failure_log import log_failure
from agent.domain.errors import Refused
from slackbot.cards import notice_modal, refusal_text
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack_api.client import RateLimited, SlackError, SlackRefused

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 8.0
"""Seconds for work after an acknowledgement."""
DRAWN = 3
"""Attempts to draw into a modal."""
TIMER_MARGIN = 0.01
"""Seconds: more than a timer of the event loop may fire early, when Slack's silence is not over."""
OPENING = 1.4
"""Seconds that an acknowledgement waits for Slack to open a modal; with the look-ups before, less than the budget."""
UNCONFIRMED = (
    "Slack has not said whether the form opened. If you do not see it, please try again: nothing was saved."
)
FAILED = "This could not be looked up. Please close it and try again."

Shown = dict[str, Any]
Then = Callable[[str], Coroutine[Any, Any, None]]

NOT_RECORDED = "Not recorded"


@dataclass(frozen=True, slots=True)
class FormError:
    """Input errors by block_id, a message under a heading, or the next step."""

    errors: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    heading: str = NOT_RECORDED
    next_step: dict[str, Any] | None = None


def on_last_input(view: dict[str, Any], problem: str) -> dict[str, str]:
    """Slack accepts errors for inputs only: use the last one, next to the button."""
    inputs = [block["block_id"] for block in view.get("blocks", []) if block.get("type") == "input"]
    return {inputs[-1]: problem} if inputs else {}


async def show(
    ctx: ListenerContext, body: Mapping[str, Any], view: Shown, not_opened: str, then: Then | None = None
) -> str | None:
    """Open a modal, on top of the current one if any; `then` gets its id, in the background.

    Returns what to tell the person if Slack refuses, for example `not_opened`. Slack may take long to answer although
    the person already sees the modal: then the acknowledgement goes ahead, and a refusal is told later.
    """
    opening = start_task(_show(ctx, body, view, not_opened, then), "modal")
    try:
        await asyncio.wait({opening}, timeout=OPENING)
    finally:  # the budget may end first
        if not opening.done():
            ctx.background.start(_tell_refusal(ctx, body, opening))
    return opening.result() if opening.done() else None


async def _show(
    ctx: ListenerContext, body: Mapping[str, Any], view: Shown, not_opened: str, then: Then | None
) -> str | None:
    try:
        view_id = await _open(ctx, body, view)
    except SlackError as error:
        return UNCONFIRMED if error.taken and not error.status else not_opened
    if then is not None:
        ctx.background.start(then(view_id))
    return None


async def _tell_refusal(
    ctx: ListenerContext, body: Mapping[str, Any], opening: asyncio.Task[str | None]
) -> None:
    if refusal := await opening:
        tell(ctx, body, refusal)


async def _open(ctx: ListenerContext, body: Mapping[str, Any], view: Shown) -> str:
    """Returns the modal's id. Raises SlackError."""
    inside = (body.get("view") or {}).get("type") == "modal"
    opening = ctx.client.views_push if inside else ctx.client.views_open
    answer = await opening(trigger_id=body["trigger_id"], view=view)
    return str((answer.get("view") or {}).get("id") or "")


async def draw(ctx: ListenerContext, view_id: str, view: Shown) -> None:
    """Replace a modal's content, after the pauses that Slack asks for. A closed modal is ignored."""
    for attempt in range(1, DRAWN + 1):
        try:
            await ctx.client.views_update(view_id=view_id, view=view)
        except RateLimited as error:
            if attempt == DRAWN:
                raise
            await asyncio.sleep(error.seconds + TIMER_MARGIN)
        except SlackRefused as error:
            if error.code != "not_found":
                raise
            return
        else:
            return


async def in_time(work: Awaitable[T], failed: str, seconds: float = PATIENCE) -> T | str:
    """Returns a sentence if the work is refused, fails or takes too long."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except Refused as refused:
        return refused.sentence
    except DatabaseError as error:
        log_failure("a look-up failed", error, action="look_up_failed")
        return error.sentence if isinstance(error, DatabaseRefuses) else failed
    except Exception as error:
        log.warning("a look-up failed: %s", type(error).__name__, extra={"action": "look_up_failed"})
        return failed


async def fill(
    ctx: ListenerContext, view_id: str, heading: str, work: Awaitable[Shown], failed: str = FAILED
) -> None:
    """Draw what a look-up returns into an open modal; a refusal or failure is shown there as a sentence."""

    async def made() -> None:
        await draw(ctx, view_id, await work)

    if wrong := await in_time(made(), failed):
        await draw(ctx, view_id, notice_modal(heading, wrong))


def tell(ctx: ListenerContext, body: Mapping[str, Any], sentence: str) -> None:
    """Reply only to the person who acted: below the message, or in a modal where there is none."""
    if body.get("response_url"):
        ctx.reply_ephemeral(body, refusal_text(sentence))
    else:
        ctx.background.start(_open(ctx, body, notice_modal(NOT_RECORDED, sentence)))
