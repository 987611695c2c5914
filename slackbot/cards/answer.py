"""An agent's answer: its beginning in the thread, the full text in a modal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agent.domain.short_ids import short_id
from slackbot.cards import blocks, buttons, inert, paging
from slackbot.cards.modals import modal
from slackbot.cards.values import ACTION_ANSWER, Card, Json, metadata, page_value, parse_id

MAX_ANSWER = 1500
MAX_ANSWER_LINES = 30
_NO_LIMIT = 2**62

PAGE_OF_ANSWER = "answer"
"""Page values with `run`, `turn` and `page`."""


def answer_line(words: str, body: Mapping[str, Any], delivery_id: object | None) -> Card:
    """Return the thread line of a run's answer: its beginning, and a button for the whole if it is cut."""
    answer = str(body.get("text") or "")
    shown = inert.paragraph(answer, MAX_ANSWER, MAX_ANSWER_LINES) or "(nothing)"
    rows = [
        blocks.rich_text(blocks.section(blocks.text(words, bold=True)), blocks.quote(*blocks.texts(shown)))
    ]
    run, turn = parse_id(body.get("run")), body.get("turn")
    if run and isinstance(turn, int) and shown != inert.paragraph(answer, _NO_LIMIT, _NO_LIMIT):
        whole = page_value(PAGE_OF_ANSWER, run=run, turn=turn, page=1)
        rows += blocks.actions(
            blocks.button("Whole answer", ACTION_ANSWER, whole, f"run {short_id(run)}, step {turn}")
        )
    text = f"{words}: {inert.mrkdwn(answer, 500)}"
    return Card(text, blocks.with_ids(rows, f"answer:{run}:{turn}"), metadata(delivery_id))


def answer_modal(run_id: UUID, turn: int, text: str, page: int) -> Json:
    """The page (from 1) or the nearest."""
    whole = inert.paragraph(text, _NO_LIMIT, _NO_LIMIT)
    content = [blocks.rich_text(blocks.quote(*blocks.texts(piece))) for piece in paging.pieces(whole)]
    pages = paging.in_pages(content)
    page = max(1, min(page, len(pages)))
    turns = paging.turns(PAGE_OF_ANSWER, page, len(pages), run=run_id, turn=turn)
    place = f"run {short_id(run_id)} · step {turn:,} · page {page:,} of {len(pages):,}"
    rows = [*pages[page - 1], blocks.context(place), *buttons.turning(turns, "the agent's answer")]
    return modal("The agent's answer", blocks.with_ids(rows, f"{run_id}:{turn}:{page}"), close="Close")
