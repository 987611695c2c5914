"""Plain messages for blocks that Slack refuses."""

from __future__ import annotations

from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from slackbot.cards import blocks, buttons, inert, status_words
from slackbot.cards.request import fallback, small_print, title
from slackbot.cards.values import Card, Json, metadata

_WITHHELD = "Slack did not accept the full card. Approve is withheld here; Details shows everything, with every button."
_SHORTENED = "Slack did not accept the full card. Details shows everything."
_SHORTENED_LINE = "Slack did not accept the full message. The pages of the run and of the request show it."


def plain_request_card(view: RequestView, *, delivery_id: object | None, findable: bool) -> Card:
    """Details and Reject only: nobody approves what is not shown."""
    waiting = view.status is RequestStatus.WAITING
    rows = [
        _section(inert.line(title(view), blocks.HEADER_LIMIT)),
        _section(f"{status_words.of_request(view.standing)}. {_WITHHELD if waiting else _SHORTENED}"),
        blocks.context(small_print(view)),
        *buttons.plain_row(view),
    ]
    known = metadata(delivery_id, request=view.id) if findable else None
    return Card(fallback(view), blocks.with_ids(rows, f"plain:{view.id}:{view.status}"), known)


def plain_message(card: Card, *, findable: bool) -> Card:
    text = card.text if len(card.text) <= blocks.TEXT_LIMIT else ""
    said = [{"type": "section", "text": {"type": "mrkdwn", "text": text}}] if text else []
    rows = blocks.with_ids([*said, _section(_SHORTENED_LINE)], "plain")
    return Card(text or _SHORTENED_LINE, rows, card.metadata if findable else None)


def _section(content: str) -> Json:
    return {"type": "section", "text": blocks.plain(content, blocks.TEXT_LIMIT)}
