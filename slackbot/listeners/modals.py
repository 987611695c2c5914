"""The forms of a decision: submitting one is the vote or the edit, and what is wrong with it is said in the form."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Verdict
from signoff.errors import MalformedArguments
from slackbot.cards import (
    CALLBACK_APPROVE,
    CALLBACK_EDIT,
    CALLBACK_REJECT,
    NEEDS_A_COMMENT,
    NEEDS_A_REASON,
    edit_errors,
    notice_modal,
    reason_of,
)
from slackbot.cards.values import REASON_BLOCK
from slackbot.listeners import details, editing
from slackbot.listeners.catch_all import OLD_FORM
from slackbot.listeners.doors import NOT_KNOWN, Doors
from slackbot.listeners.screens import NOT_COUNTED
from slackbot.listeners.voting import Press, card_of, cast

log = logging.getLogger(__name__)

PATH = "slack_modal"
NOTHING_CHANGED = "Nothing is different, so everything stays as it was."


_MAY_PASS = (Refusal.LOOKUP_FAILED, Refusal.RATE_LIMITED_LOOKUP)
_ABOUT_THE_EDIT = (
    Refusal.STRICTER_CHECKPOINT,
    Refusal.EDIT_DENIED,
    Refusal.EDIT_UNCHECKED,
    Refusal.REDACTED_EDIT,
)


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a form was not taken: errors of its inputs by block_id, or a sentence that takes its place."""

    errors: dict[str, str] = field(default_factory=dict)
    notice: str = ""


Work = Callable[[Doors, Press, dict[str, Any]], Awaitable[Wrong | None]]
"""Does what a form is for, from its submission's `view`; `None`: done."""


def register(app: AsyncApp, doors: Doors) -> None:
    """Reject, approve with a comment, edit."""

    def form(callback_id: str, work: Work) -> None:
        @app.view(callback_id)
        async def submitted(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
            await _answer(doors, ack, body, view, work)

    form(CALLBACK_REJECT, _reject)
    form(CALLBACK_APPROVE, _approve)
    form(CALLBACK_EDIT, _edit)


async def _answer(
    doors: Doors, ack: AsyncAck, body: dict[str, Any], view: dict[str, Any], work: Work
) -> None:
    press = Press.resume(body, view.get("private_metadata") or "")
    if press is None:
        await ack(response_action="update", view=notice_modal(NOT_COUNTED, OLD_FORM))
        return
    try:
        async with asyncio.timeout(doors.budget):
            wrong = await work(doors, press, view)
    except Refused as refused:
        wrong = _refused(view, refused)
    except Exception as error:
        # The form stays open with what was typed, and says that it may be sent again.
        log.exception("a form failed", extra={"action": "listener_failed", "kind": type(error).__name__})
        wrong = Wrong(errors=_somewhere(view, NOT_KNOWN), notice=NOT_KNOWN)
    if wrong is None:
        await ack()
    elif wrong.errors:
        await ack(response_action="errors", errors=wrong.errors)
        return
    else:
        await ack(response_action="update", view=notice_modal(NOT_COUNTED, wrong.notice, reason_of(view)))
    details.show_change(doors, press, body)


async def _reject(doors: Doors, press: Press, view: dict[str, Any]) -> Wrong | None:
    return await _vote(doors, press, view, Verdict.REJECT, NEEDS_A_REASON)


async def _approve(doors: Doors, press: Press, view: dict[str, Any]) -> Wrong | None:
    return await _vote(doors, press, view, Verdict.APPROVE, NEEDS_A_COMMENT)


async def _vote(
    doors: Doors, press: Press, view: dict[str, Any], verdict: Verdict, needs: str
) -> Wrong | None:
    try:
        await cast(doors, press, verdict, path=PATH, reason=reason_of(view) or None)
    except Refused as refused:
        if refused.code is Refusal.REASON_REQUIRED:
            return Wrong(errors={REASON_BLOCK: needs})
        raise
    return None


async def _edit(doors: Doors, press: Press, view: dict[str, Any]) -> Wrong | None:
    request = await card_of(doors, press)
    try:
        schema = editing.schema_for(doors, request)
    except NotFound:
        return Wrong(notice=editing.NOT_SERVED)
    arguments, errors = editing.entered(view["state"]["values"], schema, request)
    if errors:
        return Wrong(errors=errors)
    try:
        edited = await editing.save(doors, request, press, arguments)
    except MalformedArguments as wrong:
        at = edit_errors(view, schema, request.action, arguments, wrong.problem, wrong.path)
        return Wrong(at, str(wrong))
    except Refused as refused:
        if refused.code not in _ABOUT_THE_EDIT:
            raise
        return Wrong(edit_errors(view, schema, request.action, arguments, refused.sentence), refused.sentence)
    return None if edited.changed else Wrong(_somewhere(view, NOTHING_CHANGED), NOTHING_CHANGED)


def _refused(view: dict[str, Any], refused: Refused) -> Wrong:
    """What may be sent again soon stays in the form, with all that was typed; anything else takes its place."""
    if refused.code in _MAY_PASS:
        return Wrong(_somewhere(view, refused.sentence), refused.sentence)
    return Wrong(notice=refused.sentence)


def _somewhere(view: dict[str, Any], problem: str) -> dict[str, str]:
    """Slack takes errors for inputs only: below the last one, which is next to the button."""
    inputs = [block["block_id"] for block in view.get("blocks", []) if block.get("type") == "input"]
    return {inputs[-1]: problem} if inputs else {}
