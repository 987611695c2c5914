"""Agents' answers: their beginning in the thread, all of it in pages."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from slackbot import cards
from slackbot.cards import inert
from slackbot.cards.answer import MAX_ANSWER

RUN = UUID(int=7)
LONG = "\n".join(f"Finding {number}: the order was refunded." for number in range(2000))


def line(text: str) -> cards.Card:
    return cards.run_line({"line": "answer", "text": text, "run": str(RUN), "turn": 3})


def said(blocks: list[dict[str, Any]]) -> str:
    """The quoted words."""
    quotes = (
        part for block in blocks for part in block.get("elements", ()) if part["type"] == "rich_text_quote"
    )
    return "\n".join("".join(piece["text"] for piece in quote["elements"]) for quote in quotes)


def test_a_short_answer_stands_in_the_thread_as_a_whole(referee: Any) -> None:
    """There is nothing to press where nothing is left out."""
    card = line("All 3 orders are refunded.")
    referee.judge(card)
    assert (said(card.blocks), referee.buttons(card)) == ("All 3 orders are refunded.", {})


def test_a_long_answer_is_cut_and_the_rest_is_one_press_away(referee: Any) -> None:
    """The thread has at most 1,500 characters; the pages behind the button have every line once, in order."""
    card = line(LONG)
    referee.judge(card)
    assert inert.weight(said(card.blocks)) <= MAX_ANSWER == 1500
    (button,) = card.blocks[1]["elements"]
    what, query = cards.parse_page_value(button["value"]) or ("", {})
    assert (what, query) == (cards.PAGE_OF_ANSWER, {"run": str(RUN), "turn": "3", "page": "1"})
    first = cards.answer_modal(RUN, 3, LONG, 1)
    number = int(re.findall(r"page 1 of (\d+)", str(first))[0])
    views = [cards.answer_modal(RUN, 3, LONG, page) for page in range(1, number + 1)]
    for view in views:
        referee.judge_view(view)
    assert "".join(f"{said(view['blocks'])}\n" for view in views).split() == LONG.split()
    assert cards.answer_modal(RUN, 3, LONG, number + 1) == views[-1]


def test_lines_that_do_not_fit_keep_their_buttons(referee: Any) -> None:
    """Among many lines in one message, one that is shortened can still be acted on."""
    failed = cards.run_line({"line": "failed", "run": str(RUN), "text": "x"})
    card = cards.combine_lines([cards.run_line({"line": "retrying", "text": "&" * 1400})] * 2 + [failed])
    referee.judge(card)
    assert list(referee.buttons(card)) == ["Resume"]
