"""The form of a grant: within Slack's limits whatever a call says, and exact wherever nothing was freed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agent.domain.field_constraints import Between, Exact, Fits, OneOf
from agent.domain.masked_action import MaskedAction
from agent.domain.request import RequestStatus
from agent.domain.request_view import Behalf, GrantView
from agent.domain.rules import GrantLimits
from signoff.values import Action, Person, Risk
from slackbot import cards
from slackbot.cards.grant_form import PREFIX, entered_grant, grant_modal, read_grant
from slackbot.cards.grant_preview import Preview, preview_modal
from tests.unit.cards.conftest import OUR_LINK, Referee, decided, make_view

LIMITS = GrantLimits(timedelta(days=7), 100)
ARGUMENTS: dict[str, Any] = {
    "order_id": "7",
    "amount": 100,
    "express": False,
    "reason": "late",
    "lines": [{"sku": "A"}],
    "free text": "x",
}
CHOICES = {"reason": ("late", "broken", "")}
HOSTILE = "<!channel> *bold* \u202e" + "x" * 3000


def view(**changes: Any) -> Any:
    terms: dict[str, Any] = {
        "action": Action("refund", "1", ARGUMENTS),
        "facts": {"price": 12.5, "region": "eu"},
        "allow_grants": True,
        "grant_free": (("args.order_id", "[0-9]+"), ("facts.region", "eu|us")),
    }
    return make_view(**(terms | changes))


def submitted(form: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The form as it was drawn, sent with these values by the labels of its inputs."""
    state: dict[str, Any] = {}
    for block in form["blocks"]:
        if block["type"] == "input":
            element = block["element"]
            given = values.get(block["label"]["text"].replace("args.", "").replace("facts.", ""))
            state[block["block_id"]] = {element["action_id"]: _state(element, given)}
    return {"state": {"values": state}}


def _state(element: dict[str, Any], given: Any) -> dict[str, Any]:
    if element["type"] == "multi_static_select":
        chosen = (
            [{"value": each} for each in given] if given is not None else element.get("initial_options", [])
        )
        return {"selected_options": chosen}
    if "options" in element:
        return {"selected_option": {"value": given} if given else element.get("initial_option")}
    return {"value": given if given is not None else element.get("initial_value")}


def terms_of(request: Any, **values: Any) -> Any:
    form = grant_modal(request, LIMITS, CHOICES, "carried")
    return read_grant(request, json.loads(entered_grant(submitted(form, **values))), CHOICES)


def test_a_form_that_nobody_touched_allows_only_the_very_same_call() -> None:
    """Everything begins exact: freeing a field takes an act."""
    request = view()
    terms, errors = terms_of(request)
    assert errors == {}
    assert terms.arguments == {name: Exact(value) for name, value in ARGUMENTS.items()}
    assert terms.facts == {"price": Exact(12.5), "region": Exact("eu")}
    assert (terms.anyone, terms.lasts, terms.max_uses) == (False, timedelta(hours=8), 10)


def test_only_what_may_be_freed_has_an_input() -> None:
    """Numbers, booleans, choices, and texts with a pattern of the checkpoint; nothing else."""
    form = grant_modal(view(), LIMITS, CHOICES, "carried")
    labels = [block["label"]["text"] for block in form["blocks"] if block["type"] == "input"]
    freed = [each for each in labels if each.startswith(("args.", "facts."))]
    assert freed == [
        "args.amount",
        "args.express",
        "args.order_id",
        "args.reason",
        "facts.price",
        "facts.region",
    ]
    terms, _ = terms_of(
        view(), amount="1 .. 500.5", express=["0", "1"], order_id="free", reason=["0", "1"], region="free"
    )
    assert terms.arguments["amount"] == Between(Decimal(1), Decimal("500.5"))
    assert terms.arguments["express"] == OneOf((True, False))
    assert terms.arguments["order_id"] == Fits("[0-9]+")
    assert terms.arguments["reason"] == OneOf(("late", "broken"))
    assert terms.arguments["lines"] == Exact([{"sku": "A"}])
    assert terms.facts["region"] == Fits("eu|us")


NO_RANGES = ["1..", "1 .. 5 each", "1 - 500", "one", "", "1 .. x", "NaN", "99999999999999999999 .. 1"]
TOO_LONG = ["1 .. 10000000000000000", "-9007199254740992 .. 1", "0.1234567890123456789 .. 1"]


@pytest.mark.parametrize("typed", [*NO_RANGES, *TOO_LONG])
def test_a_number_is_the_value_or_a_range(typed: str) -> None:
    """Anything else is an error at its input, also a number that would be stored as another one."""
    terms, errors = terms_of(view(), amount=typed)
    assert terms is None
    assert list(errors) == [f"{PREFIX}:field:0"]


@pytest.mark.parametrize("total", ["NaN", "Infinity", "0.1234567890123456789", "five", "1e16", "1e400"])
def test_a_sum_is_a_number_that_is_shown_as_it_counts(total: str) -> None:
    """What a reviewer reads on the card of the grant is exactly what it may come to."""
    entered = {"lasts": "1h", "uses": "1", "sum_of": "args.amount", "sum": total}
    assert list(read_grant(view(), entered, CHOICES)[1]) == [f"{PREFIX}:sum"]


def test_what_no_form_sends_frees_nothing() -> None:
    """Another word than that of the choice leaves a field exact, and a grant for its requester; no choice is none."""
    asked = view(facts=None)
    terms, _ = read_grant(asked, {"lasts": "1h", "uses": "1", "field:2": "any", "whom": "all"}, CHOICES)
    assert terms is not None
    assert (terms.arguments["order_id"], terms.anyone, terms.facts) == (Exact("7"), False, None)
    for chosen in ([], ["2"], ["9"], ["x"]):
        entered = {"lasts": "1h", "uses": "1", "field:1": chosen}
        assert list(read_grant(view(), entered, CHOICES)[1]) == [f"{PREFIX}:field:1"]


def test_both_steps_stay_within_slacks_limits(referee: Referee) -> None:
    """Many, long and hostile arguments make forms that Slack takes."""
    many = {f"{HOSTILE[:200]}{n}": n for n in range(150)}
    choices = {"reason": tuple(f"{HOSTILE}{n}" for n in range(100))}
    request = view(
        action=Action("refund", "1", many | {"reason": choices["reason"][0], "order_id": HOSTILE}),
        description=HOSTILE,
        facts={HOSTILE[:300]: 1, "region": HOSTILE},
        reason_required=frozenset({"approve"}),
    )
    form = grant_modal(request, LIMITS, choices, "carried")
    referee.judge_view(form)
    plain = view()
    referee.judge_view(grant_modal(plain, LIMITS, CHOICES, "carried"))
    terms, _ = terms_of(plain, amount="1 .. 500", order_id="free")
    shown = Preview(200, 39, 2, (("request abcd", OUR_LINK), ("request efgh", None)))
    second = preview_modal(plain, replace(terms, max_sum=Decimal(5), sum_of="args.amount"), shown, "c" * 3000)
    referee.judge_view(second)
    assert "Of the last 200 decided calls of this tool 41 match: 39 approved, 2 rejected." in referee.words(
        second
    )


def test_the_button_is_there_only_where_a_grant_can_be_given(referee: Referee) -> None:
    """Not on the card of an edit, of a grant, of what is hidden, or where the checkpoint says nothing of it."""
    offered = "Approve and allow similar…"

    def buttons(request: Any) -> list[str]:
        form = cards.more_modal(request, "carried")
        referee.judge_view(form)
        return [part["text"]["text"] for _, part in referee.walk(form) if part.get("type") == "button"]

    assert offered in buttons(view())
    grant = GrantView(Behalf(anyone=True), 3, 20, Decimal(5), None, view().expires_at)
    edited = (view(revision=2), view(editor=Person("T0TEAM", "U0LINUS")))
    called = view().action
    masked = MaskedAction(called.tool, "1", called.arguments, called.digest, unseen=True)
    unread = (view(digest=b"\0" * 32), view(action=masked, digest=called.digest))
    for request in (view(allow_grants=False), view(grant=grant), *edited, *unread):
        assert offered not in buttons(request)


def test_the_card_of_a_grant_says_how_much_is_used_and_offers_to_revoke_it(referee: Referee) -> None:
    """While it is live; after its end the card says how it ended. Nothing of it is to start."""
    live = GrantView(Behalf(anyone=True), 3, 20, Decimal(450), Decimal(5000), view().expires_at)
    approved = view(**decided(RequestStatus.APPROVED), grant=live, source="allow_similar")
    card = cards.request_card(approved)
    referee.judge(card)
    assert "3 of 20 times, 450 of 5,000 in total" in referee.words(card.blocks)
    assert "Not started yet" not in referee.words(card.blocks)
    assert "signoff:revoke_grant" in str(card.blocks)
    over = replace(live, ended_at=view().expires_at, ended_by="slack:T0/U0GRACE", ended_because="revoked")
    ended = cards.request_card(replace(approved, grant=over))
    referee.judge(ended)
    assert "revoked" in referee.words(ended.blocks)
    assert "signoff:revoke_grant" not in str(ended.blocks)


@pytest.mark.parametrize(
    ("behalf", "said", "asked"),
    [
        (Behalf(anyone=True), "On behalf of anyone", "for anyone."),
        (Behalf(anyone=False, requester=Person("T0TEAM", "U0ADA")), "On behalf of U0ADA", "for @ada."),
        (Behalf(anyone=False), "On behalf of nobody in Slack", "for nobody in Slack."),
    ],
)
def test_the_question_of_a_grant_says_on_whose_behalf_it_allows_calls(
    behalf: Behalf, said: str, asked: str, referee: Referee
) -> None:
    """On its card, in the dialog before its approval, and in App Home, though nobody requested it."""
    terms = GrantView(behalf, 0, 20, Decimal(0), None, view().expires_at)
    request = view(requester=None, risk=Risk.HIGH, grant=terms, source="allow_similar")
    names = cards.Names({each: "ada" for each in cards.named_in(request) if each == "U0ADA"})
    card = cards.request_card(request, names=names)
    whom = said.removeprefix("On behalf of ")
    assert f"for {whom.replace('U0ADA', '<@U0ADA>')} ·" in referee.words(card.blocks)
    assert said in referee.words(cards.details_modal(request)["blocks"])
    assert f"{asked} Once approved, such calls run without asking anybody." in str(card.blocks)
    home = cards.home(cards.HomeView(waiting=[request], names=names))
    assert f"· for {said.removeprefix('On behalf of ')} ·" in referee.words(home["blocks"])
