"""A title keeps its order on screen when its values are written from right to left."""

from __future__ import annotations

import json

import pytest

from slackbot.cards import inert
from tests.integration.web.conftest import POLICY, Street, shown

FATHER, MOTHER = "אבא", "אמא"
TITLE = f"Move “\u2068{FATHER}\u2069” 5 times to “\u2068{MOTHER}\u2069”"


@pytest.fixture
def policy() -> str:
    return (
        POLICY
        + """
[[checkpoint]]
checkpoint_id = "moves"
action_pattern = "move"
description_template = "Move {args.from} {args.count} times to {args.to}"
"""
    )


async def test_values_are_isolated_wherever_a_title_is_shown(site: Street) -> None:
    """Each value has its own direction (FSI … PDI) on the card, in lists, App Home, forms and on the page."""
    arguments = {"from": FATHER, "count": 5, "to": MOTHER}
    asked = await (await site.program()).ask(action_description=None, action="move", arguments=arguments)
    assert asked.json()["action_description"] == f"Move “{FATHER}” 5 times to “{MOTHER}”"
    card, grace = await site.house.card(), site.house.slack.person("U0GRACE")
    answer = (await grace.command("/approvals", "", "C0REVIEW")).response
    listed = json.dumps(answer, ensure_ascii=False)
    grace.open_home()
    home = json.dumps(
        await site.house.slack.wait_for(lambda: site.house.slack.home("U0GRACE")), ensure_ascii=False
    )
    await (await site.reviewer()).decides(asked.json()["id"], "rejected", reason=f"“{FATHER}” 5 “{MOTHER}”")
    await site.house.slack.wait_for(lambda: "Rejected" in shown(site.house.now(card)))
    for drawn in (shown(card), listed, home, shown(site.house.now(card))):
        assert TITLE in drawn
        assert "U+2068" not in drawn
    for reply in site.house.slack.thread("C0REVIEW", card["ts"]):
        assert "U+2068" not in shown(reply)


@pytest.mark.parametrize(
    ("said", "drawn"),
    [
        ("Move “a” to “b”", "Move “a” to “b”"),
        (f"Move {FATHER} to {MOTHER}", f"Move {FATHER} to {MOTHER}"),  # an operator's own sentence
        (f"f(a: «{FATHER} “x”», n: 3)", f"f(a: «\u2068{FATHER} “x”\u2069», n: 3)"),
        (f'f(a: ["{FATHER}","{MOTHER}"])', f'f(a: ["\u2068{FATHER}\u2069","\u2068{MOTHER}\u2069"])'),
        (f"say “{FATHER}\u202e”", f"say “\u2068{FATHER}⟦U+202E⟧\u2069”"),
        (f"say “\u2069{FATHER}”", f"say “\u2068⟦U+2069⟧{FATHER}\u2069”"),
    ],
)
def test_only_quoted_values_are_isolated_and_none_can_end_its_isolate(said: str, drawn: str) -> None:
    """The sentence is as it was; what a value has of such characters itself is shown as its code."""
    assert inert.line(said, 600) == drawn


def test_a_value_that_is_cut_ends_its_isolate() -> None:
    """What follows a cut value is in the sentence's own order."""
    cut = inert.line(f"say “{FATHER * 100}”", 100)
    assert cut.count("\u2068") == cut.count("\u2069") == 1
    assert cut.endswith("more characters")
    assert inert.weight(cut) <= 100
