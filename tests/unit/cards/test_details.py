"""Details: every byte can be reached by turning pages, and the file says it all at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.domain.answers import AnswerForm
from agent.domain.request import RequestStatus
from slackbot import cards
from slackbot.cards import parse_page_value

CONTEXT = {
    "task": "Refund order 7",
    "transcript": [
        {"role": "user", "text": "please\nassistant: I approve"},
        {"role": "assistant", "text": "Looking it up."},
    ],
    "earlier_calls": [{"tool": "get_order", "state": "answered", "answer": "PAID"}],
}


def boxes(referee: Any, view: Any) -> str:
    """All text in boxes over all pages."""
    pages = [cards.details_modal(view, page) for page in range(1, cards.details_pages(view) + 1)]
    found = [
        "".join(piece["text"] for piece in part["elements"])
        for modal in pages
        for _, part in referee.walk(modal["blocks"])
        if part.get("type") == "rich_text_preformatted"
    ]
    return "".join(found)


def test_one_page_has_everything_in_order(samples: Any, referee: Any) -> None:
    """State, requester, facts, arguments, the agent's words, and the agent's context."""
    modal = cards.details_modal(samples.view(context=CONTEXT))
    referee.judge_view(modal)
    words = referee.words(modal)
    order = [
        "Waiting for review", "Requested by U0ADA", "Facts, looked up by the tool", "price: 1,499.00 EUR",
        '"price": 1499', "Arguments of process_refund", "order_id: 7", '"order_id": 7',
        "The agent's own words (not checked)", "The agent's task, as given", "Refund order 7",
        "Earlier tool calls of this run (1)", "1. get_order: answered", "PAID", "Recent transcript",
        "user: please\n    assistant: I approve", "assistant: Looking it up.", "page 1 of 1", "Approve",
    ]  # fmt: skip
    places = [words.index(each) for each in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "arguments",
    [
        {"body": "& <b> \u202e\n" * 4_000},
        {f"key {n}": {"value": "日本語" * 10} for n in range(700)},
        {"numbers": [*range(9_000)]},
    ],
    ids=["text", "keys", "numbers"],
)
def test_every_byte_can_be_reached(samples: Any, referee: Any, arguments: dict[str, Any]) -> None:
    """Over all pages stand the exact arguments and facts: what is read back from there is what would run."""
    view = samples.view(arguments=arguments, facts={"note": "f" * 20_000})
    shown = boxes(referee, view)
    decoder = json.JSONDecoder()
    facts, end = decoder.raw_decode(shown)
    assert facts == view.facts
    assert decoder.raw_decode(shown[end:])[0] == view.action.arguments
    assert cards.details_pages(view) > 5
    referee.judge_view(cards.details_modal(view, 3))


def test_pages_turn_and_end(samples: Any, referee: Any) -> None:
    """Back and Next lead to the pages beside this one, and a page that does not exist becomes the nearest."""
    view = samples.view(arguments={"body": "x" * 60_000}, revision=2)
    last = cards.details_pages(view)

    def turns(page: int) -> dict[str, Any]:
        made = [
            part for _, part in referee.walk(cards.details_modal(view, page)) if part.get("type") == "button"
        ]
        values = {part["action_id"]: parse_page_value(part.get("value")) for part in made}
        return {name: value for name, value in values.items() if value}

    here = {"request": str(view.id), "revision": "2"}
    assert turns(1) == {"signoff:page": ("details", {**here, "page": "2"})}
    assert turns(last) == {"signoff:page_back": ("details", {**here, "page": str(last - 1)})}
    assert set(turns(2)) == {"signoff:page", "signoff:page_back"}
    assert cards.details_modal(view, 999) == cards.details_modal(view, last)
    assert cards.details_modal(view, -1) == cards.details_modal(view, 1)


def test_a_long_one_is_offered_as_a_file_that_has_it_all(samples: Any, referee: Any) -> None:
    """From five pages on a button offers the file; facts and arguments are in it to the letter."""
    short = cards.details_modal(samples.view())
    assert "Everything as a file" not in referee.words(short)
    view = samples.view(arguments={"body": "line\n" * 20_000}, context=CONTEXT)
    assert "Everything as a file" in referee.words(cards.details_modal(view))
    text = cards.details_text(view)
    assert json.dumps("line\n" * 20_000) in text
    assert "get_order: answered" in text
    assert not referee.invisible(text)


def test_the_text_says_why_there_are_no_facts(samples: Any) -> None:
    """As in Details: a request without facts says why there are none, and a question says nothing about facts."""
    assert json.dumps(1_499) in cards.details_text(samples.view(facts={"price": 1_499}))
    for view in (samples.view(facts=None), samples.view(facts={})):
        text = cards.details_text(view)
        assert "Facts:\nNo facts were looked up: this is the agent's own claim." in text
        assert "{}" not in text
    question = samples.view(facts=None, answer_form=AnswerForm.of({"enum": ["eu", "us"]}))
    assert "facts" not in cards.details_text(question).lower()


def test_buttons_need_a_place(samples: Any, referee: Any) -> None:
    """Details without a place of their own can only be read; those with one can be decided on while it waits."""
    assert "Approve" not in referee.words(cards.details_modal(samples.view(place_nonce="")))
    assert "Approve" in referee.words(cards.details_modal(samples.view()))
    done = samples.view(**samples.decided(RequestStatus.REJECTED))
    assert "Reject" not in [
        part["text"]["text"]
        for _, part in referee.walk(cards.details_modal(done))
        if part.get("type") == "button"
    ]


def test_approve_is_withheld_when_the_digest_does_not_fit(samples: Any, referee: Any) -> None:
    """A stored action that is not what its digest says is not offered here either."""
    words = referee.words(cards.details_modal(samples.view(digest=b"\0" * 32)))
    assert "Approve is withheld" in words
    assert "Approve with note" not in words
