"""Questions that want more than yes or no, answered in Slack: buttons, the form, and what it refuses."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from agent.domain.answer_schemas import PERSON
from agent.domain.answers import AnswerForm
from agent.store import views
from agent.usecases import requests
from signoff.values import Person
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_CHOOSE,
    ACTION_GIVE_ANSWER,
    ACTION_REJECT,
    CALLBACK_EDIT,
    ButtonValue,
    thread_line,
)
from slackbot.cards.question_form import FIELD, INPUT, OTHER
from slackbot.cards.values import CALLBACK_ANSWER
from tests.integration.asking import TEAM, Asked, rule
from tests.integration.listeners.conftest import House
from tests.integration.listeners.test_commands import shown
from tests.integration.listeners.test_enterprise_grid import HANA, hana_joins
from tests.integration.on_record import put_terms_on_record

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
    status, answer = await answer_of(house, asked.request_id)
    assert (status, answer) == ("answered", expected)
    assert list(answer) == list(expected)
    in_order = "item: pens, count: 3, colours: blue, for: U0LINUS, wanted: 2027-01-31, gift: yes"
    body = house.rows("SELECT body FROM delivery WHERE body ->> 'line' = 'answered'")[0][0]
    assert in_order in words({"blocks": thread_line(body).blocks})
    assert in_order in shown(await grace.command("/approvals", "history", "C0AGENTS"))


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


Forge = Callable[[dict[str, Any], Asked, House], Any]


def pressed(action_id: str) -> Forge:
    def forge(payload: dict[str, Any], asked: Asked, house: House) -> None:
        payload["actions"][0]["action_id"] = action_id

    return forge


def valued(**changes: Any) -> Forge:
    """A button whose value names another revision or nonce."""

    def forge(payload: dict[str, Any], asked: Asked, house: House) -> None:
        named: dict[str, Any] = {"nonce": asked.nonce, "request_id": asked.request_id, "revision": 1}
        payload["actions"][0]["value"] = str(ButtonValue(**(named | changes)))

    return forge


async def of_another_question(payload: dict[str, Any], asked: Asked, house: House) -> None:
    """The nonce of another card beside this request's id."""
    elsewhere, _ = await house.asked(answer_form=REGION)
    valued(nonce=elsewhere.nonce)(payload, asked, house)


async def from_anothers_home(payload: dict[str, Any], asked: Asked, house: House) -> None:
    """Linus's own button, pressed by Grace."""
    nonce = await requests.create_place(house.db, asked.request_id, "home", Person(TEAM, "U0LINUS"))
    valued(nonce=nonce)(payload, asked, house)
    payload["container"] = {"type": "view", "view_id": "V0000000000"}
    payload["view"] = {"id": "V0000000000", "type": "home", "state": {"values": {}}}
    for name in ("channel", "message", "response_url"):
        payload.pop(name, None)


def elsewhere(payload: dict[str, Any], asked: Asked, house: House) -> None:
    """The card's button, copied into another channel."""
    payload["channel"] = payload["channel"] | {"id": "C0AGENTS"}
    payload["container"] = payload["container"] | {"channel_id": "C0AGENTS"}


ON_A_QUESTION: dict[str, Forge] = {
    "approve": pressed(ACTION_APPROVE),
    "an option that it has not": pressed(ACTION_CHOOSE[3]),
    "another revision": valued(revision=2),
    "a revision before the first": valued(revision=0),
    "another nonce": valued(nonce="n0nce_n0nce-n0nce_n0nce"),
    "another request": valued(request_id=UUID(int=7)),
    "the nonce of another question": of_another_question,
    "another person's Home": from_anothers_home,
    "another channel": elsewhere,
}
ON_AN_ACTION: dict[str, Forge] = {
    "an option": pressed(ACTION_CHOOSE[0]),
    "the last option": pressed(ACTION_CHOOSE[-1]),
    "the form": pressed(ACTION_GIVE_ANSWER),
}


@pytest.mark.parametrize(
    ("wanted", "forge"),
    [
        *(pytest.param(REGION, each, id=f"question: {name}") for name, each in ON_A_QUESTION.items()),
        *(pytest.param(None, each, id=f"action: {name}") for name, each in ON_AN_ACTION.items()),
    ],
)
async def test_forged_buttons_decide_nothing(
    http_house: House, wanted: AnswerForm | None, forge: Forge
) -> None:
    """A reviewer's press with a forged kind, option, revision or place is answered, and nothing is decided."""
    house = http_house
    asked, card = await house.asked(answer_form=wanted)
    button = ACTION_APPROVE if wanted is None else ACTION_CHOOSE[0]
    payload = copy.deepcopy(house.slack.person("U0GRACE").click_payload(card, button))
    made = forge(payload, asked, house)
    if made is not None:
        await made
    assert (await house.slack.deliveries.interactive(payload)).acked
    assert house.rows("SELECT DISTINCT status::text FROM approval_request") == [("waiting",)]
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]
    assert (await house.slack.person("U0GRACE").click(card, button)).acked  # the true one counts
    assert await house.status(asked.request_id) == ("approved" if wanted is None else "answered")


@pytest.mark.parametrize(
    ("wanted", "callback", "values"),
    [
        (REGION, "signoff:approve_modal", {"signoff:reason": {"signoff:reason_input": {"value": "because"}}}),
        (REGION, CALLBACK_EDIT, {"signoff:edit:0": {"signoff:field": {"value": "40"}}}),
        (REGION, CALLBACK_ANSWER, {f"{FIELD}0": {INPUT: {"selected_option": {"value": "2"}}}}),
        (REGION, CALLBACK_ANSWER, {f"{FIELD}1": {INPUT: {"selected_option": {"value": "0"}}}}),
        (REGION, CALLBACK_ANSWER, {}),
        (None, CALLBACK_ANSWER, {f"{FIELD}0": {INPUT: {"selected_option": {"value": "0"}}}}),
    ],
)
async def test_forged_forms_decide_nothing(
    http_house: House, wanted: AnswerForm | None, callback: str, values: dict[str, Any]
) -> None:
    """A submission of another kind of form, or of options that were not offered, decides nothing."""
    house = http_house
    asked, card = await house.asked(answer_form=wanted)
    button = ACTION_APPROVE if wanted is None else ACTION_CHOOSE[0]
    click = house.slack.person("U0GRACE").click_payload(card, button)
    view = {
        "id": "V0000000000",
        "type": "modal",
        "callback_id": callback,
        "private_metadata": f"{ButtonValue(asked.nonce, asked.request_id, 1)} C0REVIEW {card['ts']}",
        "state": {"values": values},
        "blocks": [{"type": "input", "block_id": name} for name in (values or {f"{FIELD}0": {}})],
        "previous_view_id": None,
    }
    kept = ("user", "team", "api_app_id", "token", "trigger_id", "enterprise", "is_enterprise_install")
    submitted = {"type": "view_submission", "view": view, **{name: click[name] for name in kept}}
    assert (await house.slack.deliveries.interactive(submitted)).acked
    assert await house.status(asked.request_id) == "waiting"
    assert house.rows("SELECT count(*) FROM vote") == [(0,)]


async def test_a_removed_reviewer_and_a_member_of_the_grid(house: House) -> None:
    """Who left the group no longer answers; a member at home in another workspace does, as one person."""
    hana_joins(house)
    asked, card = await house.asked(answer_form=REGION)
    house.slack.workspace.usergroups["S0FINANCE"].users.remove("U0LINUS")
    house.ctx.directory.forget("U0LINUS")
    await house.slack.person("U0LINUS").click(card, ACTION_CHOOSE[0])
    assert await answer_of(house, asked.request_id) == ("waiting", None)
    await house.slack.person("U0HANA").click(card, ACTION_CHOOSE[1])
    assert await answer_of(house, asked.request_id) == ("answered", "us")
    assert house.rows("SELECT team_id, user_id FROM vote") == [(TEAM, "U0HANA")]


async def test_a_requester_of_the_grid_answers_their_own_question(house: House) -> None:
    """The requester is one person, whichever workspace Slack names with the press."""
    hana_joins(house)
    house.slack.workspace.usergroups["S0FINANCE"].users.remove("U0HANA")
    mine = AnswerForm.of({"enum": ["eu", "us"]}, answerers=["requester"])
    asked, card = await house.asked(answer_form=mine, requester=HANA)
    await house.slack.person("U0GRACE").click(card, ACTION_CHOOSE[0])
    assert await answer_of(house, asked.request_id) == ("waiting", None)
    await house.slack.person("U0HANA").click(card, ACTION_CHOOSE[1])
    assert await answer_of(house, asked.request_id) == ("answered", "us")


@pytest.mark.parametrize("answerers", [["requester", "reviewers"], ["requester"]])
async def test_an_escalated_question_is_answered_by_more_people(house: House, answerers: list[str]) -> None:
    """At its deadline a question for reviewers may be answered by those it is escalated to; any other one expires."""
    form = AnswerForm.of({"enum": ["eu", "us"]}, answerers=answerers)
    terms = rule(approvers=("U0GRACE",), on_timeout="escalate", escalate_to=("U0LINUS",)).for_answers(form)
    asked, card = await house.asked(terms, answer_form=form)
    linus = house.slack.person("U0LINUS")
    await linus.click(card, ACTION_CHOOSE[0])
    assert await answer_of(house, asked.request_id) == ("waiting", None)
    house.owner.execute("UPDATE approval_request SET expires_at = created_at + interval '1 microsecond'")
    await put_terms_on_record(house.db)
    assert await requests.expire_due(house.db) == 1
    await linus.click(card, ACTION_CHOOSE[0])
    escalated = "reviewers" in answerers
    expected = ("answered", "eu") if escalated else ("expired", None)
    assert await answer_of(house, asked.request_id) == expected
    told = house.rows("SELECT count(*) FROM audit_event WHERE event = 'request.escalated'")
    assert told == [(int(escalated),)]
