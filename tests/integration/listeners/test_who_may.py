"""Who may decide, on every path: one table of people and their refusals, one of paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agent.domain.answers import AnswerForm
from agent.domain.rules import Rule
from agent.usecases import requests
from signoff.values import Action, Person
from slackbot.cards import ACTION_APPROVE, ACTION_CHOOSE, CALLBACK_EDIT, ButtonValue
from slackbot.cards.question_form import FIELD, INPUT
from slackbot.cards.values import CALLBACK_ANSWER
from tests.integration.asking import TEAM, Asked, exclude, rule
from tests.integration.listeners.conftest import LOOKED_UP, House

Json = dict[str, Any]
SECOND = "T0SECOND"
OTHER = "T0OTHER"
"""Other workspaces of the same organisation."""
CHANNEL = rule(approvers=("channel",), allow_edit=True)


@dataclass(frozen=True)
class Who:
    """A person on a path; `refusal` is what they must get, `None` for people who may decide."""

    user: str
    refusal: str | None
    team: str = TEAM
    terms: Rule = CHANNEL
    trouble: str = ""
    involvement: str = ""

    @property
    def member(self) -> Person:
        """As they are stored: the workspace that they call home is no part of it."""
        return Person(TEAM if self.team == SECOND else self.team, self.user)

    def refused(self, outcome: str) -> bool:
        """Whether this act of theirs is refused: who shaped an action may do all but approve it."""
        shaped = self.involvement in ("adviser", "editor")
        return self.refusal is not None and (outcome == "approved" or not shaped)


PEOPLE = {
    "a reviewer": Who("U0GRACE", None, terms=rule(allow_edit=True)),
    "a reviewer at home in another workspace": Who("U0HANA", None, team=SECOND, terms=rule(allow_edit=True)),
    "a reviewer of two workspaces, from the other": Who(
        "U0IVO", None, team=SECOND, terms=rule(allow_edit=True)
    ),
    "somebody of the organisation who is not in our workspace": Who("U0OTHER", "external", team=OTHER),
    "somebody who claims a workspace that Slack does not confirm": Who(
        "U0IVO", "external", team="T0ELSEWHERE"
    ),
    "the requester": Who("U0ADA", "self_review"),
    "the requester, from another workspace": Who("U0ADA", "self_review", team=SECOND),
    "who owns the key that asked": Who("U0LINUS", "self_review", involvement="key_owner"),
    "who instructed the agent": Who("U0LINUS", "instructed", involvement="instructor"),
    "who advised the agent": Who("U0LINUS", "advised", terms=rule(allow_edit=True), involvement="adviser"),
    "an editor": Who("U0LINUS", "editor_alone", terms=rule(allow_edit=True), involvement="editor"),
    "our bot": Who("U0BOT", "our_bot"),
    "another bot": Who("U0ROBOT", "bot"),
    "a guest": Who("U0MALLORY", "guest"),
    "an outsider": Who("U0EVE", "external", team="T0ELSEWHERE"),
    "an outsider who claims our team": Who("U0EVE", "external"),
    "a stranger": Who("U0STRANGE", "stranger"),
    "somebody deactivated": Who("U0GONE", "deactivated"),
    "nobody": Who("U0NOBODY", "unknown_person"),
    "a member of another channel": Who("U0OUT", "not_a_reviewer"),
    "a member with an empty list of reviewers": Who(
        "U0GRACE", "no_reviewers", terms=rule(approvers=("S0EMPTY",), allow_edit=True)
    ),
    "a reviewer whom Slack does not tell of": Who("U0GRACE", "lookup_failed", trouble="error"),
    "a reviewer whom Slack tells of too late": Who("U0GRACE", "lookup_failed", trouble="hang"),
    "a reviewer while Slack is limited": Who("U0GRACE", "rate_limited_lookup", trouble="limit"),
}


def workplace(house: House) -> None:
    """More people than usual, all but one of them in the review channel."""
    (
        house.slack.workspace.add_member("U0ROBOT", "robot", is_bot=True)
        .add_member("U0GONE", "gone", deleted=True)
        .add_member("U0STRANGE", "strange", is_stranger=True)
        .add_member("U0OUT", "out")
        .add_member("U0ADA", "ada", workspaces=(TEAM, SECOND))
        .add_member("U0IVO", "ivo", workspaces=(TEAM, SECOND))
        .add_member("U0HANA", "hana", team_id=SECOND, workspaces=(SECOND, TEAM))
        .add_member("U0OTHER", "other", team_id=OTHER, workspaces=(OTHER,))
        .add_usergroup("S0EMPTY", "empty", [])
    )
    house.slack.workspace.usergroups["S0FINANCE"].users += ["U0IVO", "U0HANA"]
    house.slack.workspace.channels["C0REVIEW"].members.update(
        {"U0ROBOT", "U0GONE", "U0STRANGE", "U0IVO", "U0HANA", "U0OTHER"}
    )


def in_trouble(house: House, who: Who) -> None:
    """What Slack does when it is asked about this person."""
    house.ctx.directory.forget(who.user)
    faults = house.slack.faults
    faults.clear()
    if who.trouble == "error":
        faults.error("users.info", "internal_error", times=None)
    elif who.trouble == "hang":
        faults.hang("users.info", 30, times=None)
    elif who.trouble == "limit":
        faults.ratelimited("users.info", retry_after=60, times=None)


# --- ways in: each makes the payload that this person's act would be ------------------------------------------

Way = Callable[[House, Asked, Json, Who], Awaitable[Json]]


async def on_the_card(house: House, asked: Asked, card: Json, who: Who) -> Json:
    return _by(who, house.slack.person("U0GRACE").click_payload(card, _deciding(card)))


def _deciding(card: Json) -> str:
    """The button on the card that decides at once."""
    return ACTION_CHOOSE[0] if ACTION_CHOOSE[0] in str(card) else ACTION_APPROVE


def on_own(surface: str) -> Way:
    """Approve in their own Home or details: their nonce is a true one."""

    async def way(house: House, asked: Asked, card: Json, who: Who) -> Json:
        payload = await on_the_card(house, asked, card, who)
        payload["actions"][0]["value"] = str(await _own_value(house, asked, who, surface))
        payload["container"] = {"type": "view", "view_id": "V0000000000"}
        payload["view"] = {"id": "V0000000000", "type": surface, "state": {"values": {}}}
        return {name: payload[name] for name in payload if name not in ("channel", "message", "response_url")}

    return way


def through_a_form(callback_id: str, surface: str, values: Json) -> Way:
    """Sent from a form that was opened on the card, in the details or in Home."""

    async def way(house: House, asked: Asked, card: Json, who: Who) -> Json:
        if surface == "channel":
            carried = f"{ButtonValue(asked.nonce, asked.request_id, 1)} C0REVIEW {card['ts']}"
        else:
            carried = f"{await _own_value(house, asked, who, surface)} {surface}"
        view = {
            "id": "V0000000000",
            "type": "modal",
            "callback_id": callback_id,
            "private_metadata": carried,
            "state": {"values": values},
            "blocks": [{"type": "input", "block_id": name} for name in values],
            "previous_view_id": None,
        }
        click = _by(who, house.slack.person("U0GRACE").click_payload(card, _deciding(card)))
        kept = ("user", "team", "api_app_id", "token", "trigger_id", "enterprise", "is_enterprise_install")
        return {"type": "view_submission", "view": view, **{name: click[name] for name in kept}}

    return way


def _by(who: Who, payload: Json) -> Json:
    return payload | {"user": payload["user"] | {"id": who.user, "team_id": who.team}}


async def _own_value(house: House, asked: Asked, who: Who, surface: Any) -> ButtonValue:
    nonce = await requests.create_place(house.db, asked.request_id, surface, who.member)
    return ButtonValue(nonce, asked.request_id, 1)


REASON = {"signoff:reason": {"signoff:reason_input": {"type": "plain_text_input", "value": "because"}}}
AMOUNT = {"signoff:edit:1": {"signoff:field": {"type": "number_input", "value": "40"}}}

WAYS: dict[str, tuple[Way, str]] = {
    "approve on the card": (on_the_card, "approved"),
    "approve in the details": (on_own("modal"), "approved"),
    "approve in Home": (on_own("home"), "approved"),
    **{
        f"{verb} by the form, {surface}": (through_a_form(callback, surface, values), outcome)
        for verb, callback, values, outcome in (
            ("approve", "signoff:approve_modal", REASON, "approved"),
            ("reject", "signoff:reject_modal", REASON, "rejected"),
            ("edit", CALLBACK_EDIT, AMOUNT, "edited"),
        )
        for surface in ("channel", "modal", "home")
    },
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.budgets) if who.trouble == "hang" else name
        for name, who in PEOPLE.items()
    ],
)
async def test_every_door_judges_people_alike(http_house: House, name: str) -> None:
    """On every path: a person who may decide does; everybody else gets their own refusal, recorded, and nothing
    changes.
    """
    house, who = http_house, PEOPLE[name]
    workplace(house)
    times = None  # how often the present request has refused them
    asked: Any = None
    card: Any = None
    for way, (make, outcome) in WAYS.items():
        LOOKED_UP.clear()
        if times is None:
            times = 0
            asked, card = await house.asked(
                who.terms, action=Action("process_refund", "1", {"order_id": 7, "amount": 50, "note": ""})
            )
            if who.involvement:
                await exclude(house.db, asked.request_id, who.member, who.involvement)
        payload = await make(house, asked, card, who)
        in_trouble(house, who)
        assert (await house.slack.deliveries.interactive(payload)).acked, way
        house.slack.faults.clear()
        refused = who.refused(outcome)
        assert await _state(house, asked) == ("waiting" if refused else outcome), way
        assert _refusals(house, asked) == [(who.refusal,)] * (times + refused), way
        times = times + 1 if refused else None
        if refused:
            assert not LOOKED_UP, way
            assert house.rows("SELECT count(*) FROM vote WHERE request_id = %s", asked.request_id) == [(0,)]


REGION = AnswerForm.of({"enum": ["eu", "us"]})
CHOSEN = {f"{FIELD}0": {INPUT: {"type": "radio_buttons", "selected_option": {"value": "0"}}}}
ANSWERING: dict[str, Way] = {
    "an option on the card": on_the_card,
    "an option in the details": on_own("modal"),
    "an option in Home": on_own("home"),
    **{
        f"the form, {each}": through_a_form(CALLBACK_ANSWER, each, CHOSEN)
        for each in ("channel", "modal", "home")
    },
}
# Whoever had a part in it may answer: an answer authorises nothing.
ANSWERERS = {name: who for name, who in PEOPLE.items() if not who.involvement and who.trouble != "hang"}


@pytest.mark.parametrize("name", ANSWERERS)
async def test_every_door_judges_who_answers_alike(http_house: House, name: str) -> None:
    """By an option or the form, from the card, the details or Home: the same people answer, and the requester."""
    house, who = http_house, ANSWERERS[name]
    workplace(house)
    # The requester may answer, and is there even where the checkpoint's group is empty.
    refusal = {"self_review": None, "no_reviewers": "not_a_reviewer"}.get(who.refusal or "", who.refusal)
    asked: Any = None
    card: Any = None
    for times, (way, make) in enumerate(ANSWERING.items(), 1):
        if asked is None or refusal is None:
            asked, card = await house.asked(who.terms, answer_form=REGION)
        payload = await make(house, asked, card, who)
        in_trouble(house, who)
        assert (await house.slack.deliveries.interactive(payload)).acked, way
        house.slack.faults.clear()
        assert await house.status(asked.request_id) == ("waiting" if refusal else "answered"), way
        assert _refusals(house, asked) == ([(refusal,)] * times if refusal else []), way
        stored = (
            "SELECT v.user_id FROM answer AS w JOIN vote AS v ON v.id = w.vote_id WHERE w.request_id = %s"
        )
        assert house.rows(stored, asked.request_id) == ([] if refusal else [(who.user,)]), way


@pytest.mark.parametrize("user", ["U0GRACE", "U0ADA"])
async def test_no_command_decides(http_house: House, user: str) -> None:
    """There is no word that approves: a command that sounds like it changes nothing."""
    asked, _ = await http_house.asked()
    for text in (f"approve {asked.request_id}", f"reject {asked.request_id}", f"show {asked.request_id}"):
        assert (await http_house.slack.person(user).command("/approvals", text, "C0REVIEW")).acked
    assert await http_house.status(asked.request_id) == "waiting"
    assert http_house.rows("SELECT count(*) FROM vote") == [(0,)]


async def _state(house: House, asked: Asked) -> str:
    ((status, revision),) = house.rows(
        "SELECT status::text, revision FROM approval_request WHERE id = %s", asked.request_id
    )
    return "edited" if (status, revision) == ("waiting", 2) else str(status)


def _refusals(house: House, asked: Asked) -> list[Any]:
    return house.rows(
        "SELECT detail ->> 'refusal' FROM audit_event WHERE event LIKE '%%.refused' AND subject LIKE %s",
        f"%{asked.request_id}",
    )
