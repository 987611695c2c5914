"""Views: the reason for a rejection, and a skeleton to open at once, because a trigger lives for 3 s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.request import RequestView
from slackbot.cards import blocks, inert
from slackbot.cards.request import title
from slackbot.cards.values import CALLBACK_REJECT, REASON_BLOCK, REASON_INPUT, ButtonValue, Json

MAX_TITLE = 24
MAX_REASON = 1000


def reject_modal(view: RequestView, nonce: str) -> Json:
    """Asks for the reason; submitting it is the vote. `nonce` names the place whose button was pressed."""
    question = blocks.rich_text(
        blocks.section(blocks.text(inert.line(title(view), 600), bold=True)),
        blocks.section(
            blocks.text("Rejecting ends this request. The agent and the requester get to read the reason.")
        ),
    )
    reason = {
        "type": "input",
        "block_id": REASON_BLOCK,
        "optional": True,
        "label": blocks.plain("Reason", 100),
        "element": {
            "type": "plain_text_input",
            "action_id": REASON_INPUT,
            "multiline": True,
            "max_length": MAX_REASON,
            "focus_on_load": True,
        },
    }
    value = str(ButtonValue(nonce, view.id, view.revision))
    made = _modal("Reject", [*blocks.with_ids([question], value), reason], close="Cancel")
    return made | {
        "callback_id": CALLBACK_REJECT,
        "private_metadata": value,
        "submit": blocks.plain("Reject", MAX_TITLE),
    }


def reason_of(view: Mapping[str, Any]) -> str | None:
    """What was typed into the reject modal, from a `view_submission`'s `view`; None for nothing."""
    try:
        typed = view["state"]["values"][REASON_BLOCK][REASON_INPUT]["value"]
    except (KeyError, TypeError):
        return None
    return typed.strip()[:MAX_REASON] or None if isinstance(typed, str) else None


def skeleton_modal(heading: str) -> Json:
    """Opened before anything is known, to be replaced with `views.update`."""
    return notice_modal(heading, "One moment …")


def notice_modal(heading: str, message: str) -> Json:
    """A sentence and nothing to do: what replaces a skeleton when there is no question to ask."""
    words = blocks.rich_text(blocks.section(blocks.text(inert.line(message, 2000) or "…")))
    return _modal(heading, blocks.with_ids([words], heading), close="Close")


def _modal(heading: str, rows: list[Json], *, close: str) -> Json:
    return {
        "type": "modal",
        "title": {
            "type": "plain_text",
            "text": inert.cut(inert.line(heading, 200), MAX_TITLE)[0] or "Signoff",
            "emoji": False,
        },
        "close": blocks.plain(close, MAX_TITLE),
        "blocks": rows,
    }
