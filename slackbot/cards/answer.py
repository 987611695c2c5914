"""An agent's answer: its beginning in the thread, the full text in a modal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agent.domain.request import RequestStatus
from agent.domain.short_ids import short_id
from agent.domain.verdicts import OUTCOMES
from slackbot.cards import blocks, buttons, inert, paging
from slackbot.cards.modals import modal
from slackbot.cards.values import ACTION_ANSWER, Card, Json, metadata, page_value, parse_id

MAX_ANSWER = 1500
MAX_ANSWER_LINES = 30
MAX_REASON = 500
MAX_ABOUT = 300
_NO_LIMIT = 2**62

PAGE_OF_ANSWER = "answer"
"""Page values with `run`, `turn` and `page`."""


def answer_line(words: str, body: Mapping[str, Any], delivery_id: object | None) -> Card:
    """Return the thread line of a run's answer: its beginning, and a button for the whole if it is cut."""
    answer = str(body.get("text") or "")
    shown = inert.paragraph(answer, MAX_ANSWER, MAX_ANSWER_LINES) or "(nothing)"
    told = [each for each in body.get("people") or () if blocks.mention_mrkdwn(str(each))]
    ending = str(body.get("ending") or "")
    reason = inert.paragraph(str(body.get("reason") or ""), MAX_REASON, 8)
    whom = [blocks.text("For "), blocks.mention(told[0])] if told else []
    actions = [blocks.text(f"{' · ' if told else ''}Actions: {ending}")] if ending else []
    parts = [
        blocks.section(blocks.text(words, bold=True)),
        *([blocks.section(*whom, *actions)] if whom or actions else []),
        blocks.quote(*blocks.texts(shown)),
    ]
    if reason:
        own_words = OUTCOMES[RequestStatus.REJECTED].own_words
        parts += [
            blocks.section(blocks.text(f"{own_words}:", italic=True)),
            blocks.quote(*blocks.texts(reason)),
        ]
    rows = [blocks.rich_text(*parts)]
    run, turn = parse_id(body.get("run")), body.get("turn")
    if run and isinstance(turn, int) and shown != inert.paragraph(answer, _NO_LIMIT, _NO_LIMIT):
        whole = page_value(PAGE_OF_ANSWER, run=run, turn=turn, page=1)
        rows += blocks.actions(
            blocks.button("Whole answer", ACTION_ANSWER, whole, f"run {short_id(run)}, step {turn}")
        )
    mentions = "".join(f" {blocks.mention_mrkdwn(each)}" for each in told[:1])
    text = f"{words}: {inert.mrkdwn(answer, 500)}{mentions}"
    return Card(text, blocks.with_ids(rows, f"answer:{run}:{turn}"), metadata(delivery_id))


def outcome_message(line: Card, about: str, link: str | None) -> Card:
    """A thread's line for one person, elsewhere: what it is about, and the way to the thread, which has the buttons."""
    shown = inert.line(about, MAX_ABOUT) or "…"
    where = [blocks.text(" · "), blocks.link(link, "open the thread")] if link else []
    rows = [
        blocks.rich_text(blocks.section(blocks.text(shown, bold=True), *where)),
        *(block for block in line.blocks if block["type"] != "actions"),
    ]
    text = f"{inert.mrkdwn(about, MAX_ABOUT)} · {line.text}"
    return Card(text, blocks.with_ids(rows, "outcome"), line.metadata)


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
