"""Questions that want more than yes or no, answered in Slack: buttons, the form, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent.domain.answers import PERSON, AnswerForm
from agent.store import views
from slackbot.cards import ACTION_CHOOSE, ACTION_GIVE_ANSWER, ACTION_REJECT
from slackbot.cards.question import FIELD, INPUT, OTHER
from tests.integration.listeners.conftest import House

REGION = AnswerForm.of({"enum": ["eu", "us"]})
ORDER = AnswerForm.of(
    {
        "type": "object",
        "properties": {
            "item": {"type": "string", "maxLength": 40, "title": "What"},
            "count": {"type": "integer", "minimum": 1, "maximum": 10},
            "colours": {"type": "array", "items": {"enum": ["red", "blue"]}},
            "for": {"type": "string", "format": PERSON},
            "wanted": {"type": "string", "format": "date"},
            "gift": {"type": "boolean"},
        },
        "required": ["item", "count"],
    }
)


def at(number: int) -> str:
    return f"{FIELD}{number}/{INPUT}"


async def answer_of(house: House, request_id: Any) -> tuple[str, Any]:
    view = await house.db.read(views.request_view, request_id)
    assert view is not None
    return view.status.value, view.answer


def labels(card: dict[str, Any]) -> list[str]:
    rows = [block for block in card["blocks"] if block["type"] == "actions"]
    return [each["text"]["text"] for row in rows for each in row["elements"]]


def words(card: dict[str, Any]) -> str:
    return "".join(re.findall(r"'text': '([^']*)'", str(card["blocks"])))


async def test_one_press_answers(house: House) -> None:
    """Up to four short options are buttons, and one press is the answer; the card then shows it."""
    asked, card = await house.asked(answer_form=REGION)
    assert labels(card) == ["eu", "us", "Something else…", "Reject", "Details"]
    pressed = await house.slack.person("U0GRACE").click(card, ACTION_CHOOSE[1])
    assert pressed.error is None
    assert await answer_of(house, asked.request_id) == ("answered", "us")


async def test_the_requester_presses_and_a_guest_does_not(house: House) -> None:
    """The requester may answer; a guest may not, and nothing is recorded for one."""
    asked, card = await house.asked(answer_form=REGION)
    await house.slack.person("U0MALLORY").click(card, ACTION_CHOOSE[0])
    assert await answer_of(house, asked.request_id) == ("waiting", None)
    await house.slack.person("U0ADA").click(card, ACTION_CHOOSE[0])
    assert await answer_of(house, asked.request_id) == ("answered", "eu")


async def test_something_else(house: House) -> None:
    """Own words are the answer where the author allows them; choosing both, or nothing, is an error in the form."""
    asked, card = await house.asked(answer_form=REGION)
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_GIVE_ANSWER)
    form = house.slack.views("U0GRACE")[-1]
    assert (await grace.submit(form, {})).errors
    assert (await grace.submit(form, {at(0): "0", f"{OTHER}/{INPUT}": "the moon"})).errors
    assert await answer_of(house, asked.request_id) == ("waiting", None)


async def test_own_words_are_the_answer(house: House) -> None:
    """What a person writes in place of an option reaches the agent as it was written, and counts as own words."""
    asked, card = await house.asked(answer_form=REGION)
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_GIVE_ANSWER)
    answer = await grace.submit(house.slack.views("U0GRACE")[-1], {f"{OTHER}/{INPUT}": "the <moon> & back"})
    assert answer.error is None
    assert await answer_of(house, asked.request_id) == ("answered", "the <moon> & back")
    assert house.rows("SELECT own_words FROM answer") == [(True,)]


async def test_a_form_is_drawn_from_its_schema(house: House) -> None:
    """Each field has its label and its kind of input; what does not fit is said at the field, and then it counts."""
    asked, card = await house.asked(answer_form=ORDER)
    assert labels(card) == ["Answer…", "Reject", "Details"]
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_GIVE_ANSWER)
    form = house.slack.views("U0GRACE")[-1]
    drawn = [block for block in form["blocks"] if block["type"] == "input"]
    assert [(each["label"]["text"], each["element"]["type"], each["optional"]) for each in drawn] == [
        ("What", "plain_text_input", False),
        ("count", "number_input", False),
        ("colours", "checkboxes", True),
        ("for", "users_select", True),
        ("wanted", "datepicker", True),
        ("gift", "radio_buttons", True),
    ]
    given = {at(0): "pens", at(1): "3", at(2): ["1"], at(3): "U0MALLORY", at(4): "2027-01-31", at(5): "yes"}
    wrong = await grace.submit(form, given)
    assert wrong.errors == {f"{FIELD}3": "This must be a member of this workspace."}
    assert (await grace.submit(form, given | {at(3): "U0LINUS"})).error is None
    expected = {
        "item": "pens",
        "count": 3,
        "colours": ["blue"],
        "for": "U0LINUS",
        "wanted": "2027-01-31",
        "gift": True,
    }
    assert await answer_of(house, asked.request_id) == ("answered", expected)


async def test_a_card_names_the_fields(house: House) -> None:
    """A waiting card says what the form asks for; a decided one has each answer after its label."""
    properties = {"item": {"type": "string", "title": "What do you need?"}, "size": {"enum": ["S", "L"]}}
    asked, card = await house.asked(answer_form=AnswerForm.of({"type": "object", "properties": properties}))
    assert "It asks for: What do you need? · size" in words(card)
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_GIVE_ANSWER)
    await grace.submit(house.slack.views("U0GRACE")[-1], {at(0): "pens", at(1): "1"})
    decided = await house.card(asked)
    assert "What do you need? pens" in words(decided)
    assert "size: L" in words(decided)


async def test_dont_ask_this(house: House) -> None:
    """A question is rejected like any request, with words; closing the form decides nothing."""
    asked, card = await house.asked(answer_form=REGION)
    grace = house.slack.person("U0GRACE")
    await grace.click(card, ACTION_GIVE_ANSWER)
    await grace.close(house.slack.views("U0GRACE")[-1])
    assert await answer_of(house, asked.request_id) == ("waiting", None)
    await grace.click(card, ACTION_REJECT)
    await grace.submit(
        house.slack.views("U0GRACE")[-1], {"signoff:reason/signoff:reason_input": "decide yourself"}
    )
    assert await answer_of(house, asked.request_id) == ("rejected", None)


async def test_a_late_answer_is_refused(house: House) -> None:
    """The first answer counts; whoever presses then reads what was decided, and nothing changes."""
    asked, card = await house.asked(answer_form=REGION)
    await house.slack.person("U0GRACE").click(card, ACTION_CHOOSE[0])
    await house.slack.person("U0LINUS").click(card, ACTION_CHOOSE[1])
    assert await answer_of(house, asked.request_id) == ("answered", "eu")
    await house.slack.wait_for(
        lambda: any("already answered" in each["text"] for each in house.slack.ephemeral("U0LINUS"))
    )


@pytest.mark.parametrize(
    "options", [[f"option {n}" for n in range(120)][:100], ["x" * 200, "y" * 2_000], ["שלום", "مرحبا"]]
)
async def test_unusual_options_are_offered_whole(house: House, options: list[str]) -> None:
    """Many, long or right-to-left options are never cut: they are buttons, a menu, or a list with numbers."""
    asked, card = await house.asked(answer_form=AnswerForm.of({"enum": options}, other=False))
    grace = house.slack.person("U0GRACE")
    if len(options) > 2 or len(options[0]) > 30:
        await grace.click(card, ACTION_GIVE_ANSWER)
        form = house.slack.views("U0GRACE")[-1]
        await grace.submit(form, {at(0): "1"})
    else:
        await grace.click(card, ACTION_CHOOSE[1])
    assert await answer_of(house, asked.request_id) == ("answered", options[1])
