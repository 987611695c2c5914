"""A card for people who are not developers: words for names, and what they do not need in Details."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.domain.request import Verdict
from signoff.description import shown as stored_as_shown
from signoff.values import Action, Risk
from slackbot.cards import HomeView, details_modal, home, request_card, vote_modal
from tests.rendered import above_the_buttons

ARGUMENTS = {"order_id": 7, "amount": 1499, "trace": "abc", "rows": [{"trace": 1, "sku_no": 2}]}
TERMS: dict[str, Any] = {
    "layout": "plain",
    "labels": (("price", "What it costs"),),
    "hide": ("trace", "rows.trace", "facts.paid_at"),
    "arguments": ARGUMENTS,
}


@pytest.mark.parametrize("risk", list(Risk))
def test_hidden_values_are_counted_and_in_details(samples: Any, referee: Any, risk: Risk) -> None:
    """On card, form and App Home; from high risk on, also where a tool raised it, nothing is hidden."""
    view = samples.view(**TERMS, risk=risk, description="Refund it")
    card = request_card(view)
    referee.judge(card)
    form = vote_modal(Verdict.REJECT, view, "carried")
    for words in map(referee.words, (card.blocks, form, home(HomeView(waiting=[view])))):
        assert ("abc" in words, "Paid at" in words) == (risk >= Risk.HIGH,) * 2
        assert ("3 more values are in Details." in words) == (risk < Risk.HIGH)
    details = referee.words(details_modal(view)["blocks"])
    assert "Trace: abc" in details
    assert "Paid at: 2026-12-24T10:00:00Z" in details
    assert "Approve" in referee.buttons(card)


def test_own_words_about_a_hidden_value_stay(samples: Any, referee: Any) -> None:
    """They repeat nothing that stands above them."""
    view = samples.view(**TERMS, risk=Risk.LOW, rationale="trace abc")
    assert "trace abc" in referee.words(request_card(view).blocks)
    repeating = request_card(replace(view, rationale="amount 1499")).blocks
    assert "amount 1499" not in referee.words(repeating)


def test_what_a_question_is_about_is_hidden_by_its_path(samples: Any, referee: Any) -> None:
    """As a condition reads it: the card shows it at the top, which changes no path."""
    about = {
        "question": "Sure?",
        "arguments": {"trace": "abc", "amount": 7},
        "risk": "low",
        "timeout_seconds": 60,
    }
    for hidden, words in (("trace", "Trace: abc"), ("arguments.trace", "1 more value is in Details.")):
        view = samples.view(
            layout="plain",
            hide=(hidden,),
            risk=Risk.LOW,
            description="“Sure?”",
            action=Action("ask_human", "1", about),
        )
        assert words in referee.words(request_card(view).blocks)


def test_names_are_words(samples: Any, referee: Any) -> None:
    """Labels first; other names as words, at every depth; the tool's name is in Details."""
    view = samples.view(**TERMS, risk=Risk.LOW, description="Refund it")
    words = referee.words(request_card(view).blocks)
    for said in (
        "What it costs: 1,499.00 EUR",
        "Order id: 7",
        "Amount: 1,499.00",
        "Sku no: 2",
        "What it is about",
    ):
        assert said in words, said
    assert "process_refund" not in words
    assert "process_refund" in referee.words(details_modal(view)["blocks"])


def test_a_name_on_the_card_is_that_of_the_title(samples: Any, referee: Any) -> None:
    """An argument that only the list shows does not read like another one that only the title shows."""
    arguments = {"order_id": 7, "orderId": [[2]]}
    view = samples.view(layout="plain", arguments=arguments, risk=Risk.LOW, description="")
    view = replace(view, description=stored_as_shown(view.rule.describe(view.action, view.facts)))
    lines = above_the_buttons(request_card(view).blocks)
    assert 'Low risk · Process refund · "orderId": [[2]], "order_id": 7' in lines
    assert '• "orderId": 1 item' in lines
    for words in (
        referee.words(details_modal(view)["blocks"]),
        referee.words(vote_modal(Verdict.REJECT, view, "")),
    ):
        assert '"order_id": 7' in words
