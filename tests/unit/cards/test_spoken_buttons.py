"""Equal buttons are told apart where they are read aloud (the referee checks every button that these tests draw)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.request_list import HistoryLine, RequestLine
from agent.domain.run import RunView
from agent.domain.short_ids import short_id
from signoff.values import Risk
from slackbot import cards
from slackbot.cards.lists import GrantLine, grant_list
from tests.unit.cards.conftest import ADA, CREATED, executed, make_run, make_view

ORDERS = (12, 13)
PAGES = cards.Pages(cards.page_value("x", page=1), cards.page_value("x", page=2))


def ident(order: int) -> UUID:
    return UUID(int=order << 96 | order)


def about(order: int) -> str:
    return f"Refund order {order}"


def views() -> list[Any]:
    return [make_view(id=ident(n), description=about(n), allow_edit=True, risk=Risk.LOW) for n in ORDERS]


def lines(kind: type[RequestLine]) -> list[Any]:
    made = (ADA, CREATED, CREATED, "C0REVIEW", None, 0, 1)
    risk = Risk.LOW
    return [kind(ident(n), about(n), "refunds", risk, RequestStatus.WAITING, *made) for n in ORDERS]


def runs() -> list[RunView]:
    return [make_run(id=ident(n), task=about(n), requester=ADA) for n in ORDERS]


def doubt(order: int) -> Any:
    return cards.run_line({"line": "in_doubt", "tool": "refund", "execution": str(ident(order))})


def failed(order: int) -> Any:
    return cards.run_line({"line": "failed", "run": str(ident(order))})


def closed(order: int) -> Any:
    return cards.thread_line({"line": "closed", "outcome": "approved", "open": str(ident(order))})


SURFACES: dict[str, Any] = {
    "cards": lambda: [cards.request_card(each) for each in views()],
    "cards in doubt": lambda: [
        cards.request_card(replace(each, **_in_doubt(each))) for each in views()
    ],
    "plain cards": lambda: [cards.plain_request_card(each, delivery_id="d", findable=True) for each in views()],
    "details": lambda: [cards.details_modal(each) for each in views()],
    "App Home": lambda: cards.home(
        cards.HomeView(views(), lines(RequestLine), runs(), lines(HistoryLine), None, PAGES, PAGES,
                       frozenset(each.id for each in runs()))
    ),
    "requests": lambda: cards.request_list(lines(RequestLine)).blocks,
    "history": lambda: cards.history_list(lines(HistoryLine)).blocks,
    "runs": lambda: cards.run_list(runs(), cancellable=frozenset(each.id for each in runs())).blocks,
    "grants": lambda: grant_list([GrantLine(ident(n), about(n), 0, 5, CREATED) for n in ORDERS]).blocks,
    "thread": lambda: cards.combine_lines([doubt(12), doubt(13), failed(12), failed(13)]).blocks,
    "closed cards": lambda: cards.combine_lines([closed(12), closed(13)]).blocks,
}  # fmt: skip


def _in_doubt(view: Any) -> dict[str, Any]:
    return executed(ExecutionStatus.IN_DOUBT, "no answer")


def buttons_in(drawn: Any) -> list[dict[str, Any]]:
    if isinstance(drawn, cards.Card):
        return buttons_in(drawn.blocks)
    if isinstance(drawn, list):
        return [button for each in drawn for button in buttons_in(each)]
    if not isinstance(drawn, dict):
        return []
    own = [drawn] if drawn.get("type") == "button" else []
    return own + [button for each in drawn.values() for button in buttons_in(each)]


@pytest.mark.parametrize("surface", SURFACES)
def test_repeated_buttons_say_of_what(surface: str) -> None:
    """Whatever button stands there more than once is read with what it is about, and no two are read alike."""
    found = [
        (each["text"]["text"], each.get("accessibility_label")) for each in buttons_in(SURFACES[surface]())
    ]
    repeated = {shown for shown, times in Counter(shown for shown, _ in found).items() if times > 1}
    assert repeated
    spoken = [label for shown, label in found if shown in repeated]
    assert all(label and len(label) <= 75 for label in spoken), spoken
    if surface != "App Home":  # a request may be in several of its lists, where it is the same request
        assert len(set(spoken)) == len(spoken), spoken


def test_a_button_is_read_with_what_it_shows() -> None:
    """The label begins with the button's own words; long and empty descriptions fit, or give way to the id."""
    (line, _) = lines(RequestLine)
    for description, expected in (
        ("Refund order 12", "Open: Refund order 12"),
        ("x" * 300, f"Open: {'x' * 68}…"),
        ("  ", f"Open: {short_id(line.id)}"),
        ("two\nlines", "Open: two ⏎ lines"),
    ):
        (button,) = buttons_in(cards.request_list([replace(line, description=description)]))
        assert button["accessibility_label"] == expected
