"""Forms: what they begin with, what they demand, and that they give back exactly what was meant."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from agent.domain.people import Exclusion, Involvement
from agent.domain.request import Verdict
from signoff.values import Action, Person
from slackbot import cards
from slackbot.cards.quotation import Carried
from slackbot.cards.values import AGENT_BLOCK, CHOICE_BLOCK, REASON_BLOCK, TASK_BLOCK

CARRY = "carried"


class Line(BaseModel):
    sku: str
    count: int


SCHEMA = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer", "minimum": 1, "description": "The order."},
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 5000},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "reason": {"type": "string", "maxLength": 40},
        "letter": {"type": "string"},
        "currency": {"enum": ["EUR", "USD"], "type": "string"},
        "notify": {"type": "boolean"},
        "urgent": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "due": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "token": {"type": "string"},
    },
    "required": ["order_id", "amount", "letter", "currency", "notify"],
    "$defs": {"Line": TypeAdapter(Line).json_schema()},
}
ARGUMENTS = {
    "order_id": 7,
    "amount": 1499.5,
    "note": None,
    "reason": "late",
    "letter": "Dear Ada,\nsorry.",
    "currency": "EUR",
    "notify": True,
    "urgent": None,
    "due": "2027-01-31",
    "lines": [{"sku": "A", "count": 2}],
    "token": "⟦redacted github-token, 40 characters⟧",
    "extra": 1,
}


def inputs(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The inputs of a form by their label."""
    return {block["label"]["text"]: block for block in view["blocks"] if block["type"] == "input"}


def state(view: dict[str, Any], **entered: Any) -> dict[str, Any]:
    """`view.state.values` after somebody entered this; everything else as it began."""
    values: dict[str, Any] = {}
    for label, block in inputs(view).items():
        element = block["element"]
        found: dict[str, Any] = {"type": element["type"]}
        match element["type"]:
            case "plain_text_input" | "number_input":
                found["value"] = entered.get(label, element.get("initial_value"))
            case "datepicker":
                found["selected_date"] = entered.get(label, element.get("initial_date"))
            case "checkboxes":
                chosen = element["options"] if entered.get(label) else []
                found["selected_options"] = chosen if label in entered else element.get("initial_options", [])
            case _:
                options = [each for each in element["options"] if each["text"]["text"] == entered.get(label)]
                found["selected_option"] = options[0] if options else element.get("initial_option")
        values[block["block_id"]] = {element["action_id"]: found}
    return values


@pytest.fixture
def form(samples: Any, referee: Any) -> dict[str, Any]:
    made = cards.edit_modal(samples.view(arguments=ARGUMENTS), SCHEMA, CARRY)
    referee.judge_view(made)
    return made


def edited(form: dict[str, Any], **entered: Any) -> tuple[dict[str, Any], dict[str, str]]:
    true = Action("process_refund", "3", ARGUMENTS | {"token": "the true one"})
    return cards.read_edit(state(form, **entered), SCHEMA, true)


def test_each_type_has_its_own_input(form: dict[str, Any]) -> None:
    """Text, number, choice, switch and date are entered as what they are, everything else as JSON."""
    kinds = {label: block["element"]["type"] for label, block in inputs(form).items()}
    assert kinds == {
        "order_id": "number_input",
        "amount": "number_input",
        "note": "plain_text_input",
        "reason": "plain_text_input",
        "letter": "plain_text_input",
        "currency": "static_select",
        "notify": "checkboxes",
        "urgent": "static_select",
        "due": "datepicker",
        "lines": "plain_text_input",
    }
    elements = {label: block["element"] for label, block in inputs(form).items()}
    assert (
        elements["order_id"] | {"is_decimal_allowed": False, "min_value": "1", "initial_value": "7"}
        == elements["order_id"]
    )
    assert elements["amount"]["is_decimal_allowed"] is True
    assert elements["amount"]["max_value"] == "5000"
    assert elements["letter"]["multiline"] is True
    assert elements["reason"] | {"multiline": False, "max_length": 40} == elements["reason"]
    assert elements["currency"]["initial_option"]["text"]["text"] == "EUR"
    assert elements["due"]["initial_date"] == "2027-01-31"
    assert elements["lines"]["initial_value"].startswith("[\n  {")
    assert inputs(form)["order_id"]["hint"]["text"] == "The order."
    assert form["private_metadata"] == CARRY


def test_redacted_arguments_are_shown_and_cannot_be_edited(
    form: dict[str, Any], samples: Any, referee: Any
) -> None:
    """A secret has no input, whether it is masked or named by the checkpoint, and stays what it truly is."""
    assert "token" not in inputs(form)
    assert "⟦redacted github-token, 40 characters⟧  (redacted, cannot be edited)" in referee.words(form)
    assert edited(form)[0]["token"] == "the true one"
    by_policy = cards.edit_modal(
        samples.view(arguments=ARGUMENTS, redact=("note", "args.amount")), SCHEMA, CARRY
    )
    assert not {"note", "amount"} & set(inputs(by_policy))


def test_an_untouched_form_changes_nothing(form: dict[str, Any]) -> None:
    """What nobody changed comes back to the letter, also what has no input."""
    arguments, errors = edited(form)
    assert not errors
    assert arguments == ARGUMENTS | {"token": "the true one"}


def test_entered_values_have_their_types(form: dict[str, Any]) -> None:
    """A number is a number, a tick is true or false, JSON is what it says, a cleared text is null where it may be."""
    arguments, errors = edited(
        form, order_id="8", amount="12.50", note="now", reason="", currency="USD", notify=False, urgent="yes",
        due="2028-02-29", lines='[{"sku": "B", "count": 3}]',
    )  # fmt: skip
    assert not errors
    assert arguments == ARGUMENTS | {
        "token": "the true one", "order_id": 8, "amount": 12.5, "note": "now", "reason": "", "currency": "USD",
        "notify": False, "urgent": True, "due": "2028-02-29", "lines": [{"sku": "B", "count": 3}],
    }  # fmt: skip
    assert type(edited(form, amount="12.0")[0]["amount"]) is int


@pytest.mark.parametrize(
    ("label", "typed", "said"),
    [
        ("order_id", "1.5", "whole number"),
        ("order_id", "seven", "not a number"),
        ("order_id", "", "must not be empty"),
        ("order_id", "99999999999999999999", "between"),
        ("order_id", "NaN", "between"),
        ("amount", "0.12345678901234567890", "too many digits"),
        ("lines", "[1,", "not valid JSON"),
        ("lines", '{"a": 1, "a": 2}', "not valid JSON"),
        ("lines", " ", "must not be empty"),
    ],
)
def test_what_cannot_be_used_is_said_below_its_input(
    form: dict[str, Any], label: str, typed: str, said: str
) -> None:
    """A mistake is an error of exactly the input it was made in, and its argument is not changed."""
    arguments, errors = edited(form, **{label: typed})
    assert list(errors) == [inputs(form)[label]["block_id"]]
    assert said in errors[inputs(form)[label]["block_id"]]
    assert arguments[label] == ARGUMENTS[label]


@pytest.mark.parametrize("sent", ["2", "9" * 5000, "x", ""])
def test_a_choice_that_was_not_offered_is_said_at_its_input(form: dict[str, Any], sent: str) -> None:
    """Whatever a forged form sends is an error of that input, and never one of ours."""
    values, block = state(form), inputs(form)["currency"]["block_id"]
    values[block]["signoff:field"]["selected_option"] = {"value": sent}
    arguments, errors = cards.read_edit(values, SCHEMA, Action("process_refund", "3", ARGUMENTS))
    assert list(errors) == [block]
    assert arguments["currency"] == "EUR"


def test_the_tools_own_complaints_find_their_input(form: dict[str, Any]) -> None:
    """What the tool refuses by path is shown where it was entered, else at what was changed, else at the first."""
    action = Action("process_refund", "3", ARGUMENTS)
    count = "Input should be a valid integer"
    found = cards.edit_errors(form, SCHEMA, action, ARGUMENTS, count, "$.lines[0].count")
    assert found == {inputs(form)["lines"]["block_id"]: "Input should be a valid integer"}
    changed = {**ARGUMENTS, "lines": []}
    about_all = cards.edit_errors(form, SCHEMA, action, changed, "Too much")
    assert about_all == {inputs(form)["lines"]["block_id"]: "Too much"}
    elsewhere = cards.edit_errors(form, SCHEMA, action, ARGUMENTS, "Unexpected argument", "$.extra")
    assert elsewhere == {inputs(form)["order_id"]["block_id"]: "$.extra: Unexpected argument"}


@pytest.mark.parametrize("text", ["x" * 3_001, "&" * 601, "日" * 3_001])
def test_what_is_too_long_is_not_editable_and_says_so(samples: Any, referee: Any, text: str) -> None:
    """An input can begin with 3,000 characters as Slack counts them; longer texts are not offered, nor cut."""
    made = cards.edit_modal(samples.view(arguments={"letter": text}), SCHEMA, CARRY)
    referee.judge_view(made)
    assert "letter" not in inputs(made)
    assert "too long to be edited here" in referee.words(made)


@pytest.mark.parametrize("text", ["a\u202eb", " padded ", "tab\there", "a\r\nb", "\u200b"])
def test_what_an_input_would_change_is_edited_as_json(samples: Any, referee: Any, text: str) -> None:
    """Hidden characters and blanks at the ends are visible as escapes, and survive an untouched form."""
    view = samples.view(arguments={"letter": text})
    made = cards.edit_modal(view, SCHEMA, CARRY)
    referee.judge_view(made)
    assert inputs(made)["letter"]["element"]["initial_value"].startswith('"')
    assert cards.read_edit(state(made), SCHEMA, view.action)[0]["letter"] == text


def test_a_form_without_inputs_cannot_be_sent(samples: Any, referee: Any) -> None:
    """Where nothing can be edited there is no button to save."""
    made = cards.edit_modal(samples.view(arguments={"extra": 1}), {"type": "object", "properties": {}}, CARRY)
    referee.judge_view(made)
    assert "submit" not in made
    assert "None of these arguments can be edited here." in referee.words(made)


def test_schemas_as_pydantic_writes_them(samples: Any, referee: Any) -> None:
    """References, optional types, literals and decimals, straight from type hints."""

    class Arguments(BaseModel):
        kind: Literal["full", "part"]
        price: float | str
        line: Line | None = None
        tags: list[str] = []

    arguments = {"kind": "part", "price": "12.50", "line": None, "tags": ["a"]}
    view = samples.view(arguments=arguments)
    schema = TypeAdapter(Arguments).json_schema()
    made = cards.edit_modal(view, schema, CARRY)
    referee.judge_view(made)
    kinds = {label: block["element"]["type"] for label, block in inputs(made).items()}
    assert kinds["kind"] == "static_select"
    assert kinds["price"] == "plain_text_input"
    read, errors = cards.read_edit(state(made, price="13.00", tags='["b"]'), schema, view.action)
    assert (read, errors) == (arguments | {"price": "13.00", "tags": ["b"]}, {})


# ---------------------------------------------------------------- votes
def test_a_rejection_offers_the_checkpoints_reasons(samples: Any, referee: Any) -> None:
    """One of the reasons, own words, or both; as radio buttons while there are few."""
    view = samples.view(
        reject_reasons=("Wrong amount", "Wrong customer"), reason_required=frozenset({"reject"})
    )
    made = cards.vote_modal(Verdict.REJECT, view, CARRY)
    referee.judge_view(made)
    assert inputs(made)["Reason"]["element"]["type"] == "radio_buttons"
    assert inputs(made)["In your own words"]["optional"] is True, "a chosen reason is enough"
    assert "one of them is required" in inputs(made)["In your own words"]["hint"]["text"]
    chosen = state(made, Reason="Wrong amount")
    assert cards.reason_of({"state": {"values": chosen}}) == "Wrong amount"
    both = state(made, Reason="Wrong amount", **{"In your own words": " it was 12 "})
    assert cards.reason_of({"state": {"values": both}}) == "Wrong amount: it was 12"
    assert cards.reason_of({"state": {"values": state(made)}}) is None
    many = cards.vote_modal(
        Verdict.REJECT, samples.view(reject_reasons=tuple(f"Reason {n}" for n in range(20))), CARRY
    )
    referee.judge_view(many)
    assert inputs(many)["Reason"]["element"]["type"] == "static_select"


READER = Person("T0", "U1")


@pytest.mark.parametrize(
    ("terms", "warned"),
    [
        ({}, True),
        ({"prevent_self_review": False}, True),
        ({"adviser_may_approve": True}, False),
        ({"run_id": None}, True),  # a program can read it, too
        ({"excluded": (Exclusion(READER, Involvement.ADVISER),)}, False),  # that is so already
        ({"excluded": (Exclusion(Person("T0", "U9"), Involvement.ADVISER),)}, True),
    ],
)
def test_own_words_that_exclude_are_announced(samples: Any, terms: dict[str, Any], warned: bool) -> None:
    """The form says before it is sent that own words keep this person from approving what follows, where they do."""
    view = samples.view(**terms)
    assert (cards.OWN_WORDS_EXCLUDE in str(cards.vote_modal(Verdict.REJECT, view, CARRY, READER))) is warned
    assert (cards.OWN_WORDS_EXCLUDE in str(cards.vote_modal(Verdict.APPROVE, view, CARRY, READER))) is warned


@pytest.mark.parametrize("may_approve", [True, False])
def test_edits_that_exclude_are_announced(samples: Any, may_approve: bool) -> None:
    """The form says, before it is sent, whether someone else has to approve the edit."""
    view = samples.view(action=Action("refund", "1", {"amount": 1}), editor_may_approve=may_approve)
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    said = "someone else has to approve it" in str(cards.edit_modal(view, schema, CARRY))
    assert said is not may_approve


def test_no_form_calls_a_required_reason_optional(samples: Any, referee: Any) -> None:
    """With choices, a required one begins with own words, which alone is no reason; an optional one with nothing."""
    offered = ("Wrong amount", "Wrong customer")
    required = cards.vote_modal(
        Verdict.REJECT, samples.view(reject_reasons=offered, reason_required=frozenset({"reject"})), CARRY
    )
    chooser = inputs(required)["Reason"]
    begin = chooser["element"]["initial_option"]
    assert (chooser["optional"], begin["text"]["text"]) == (False, "Other, in my own words below")
    assert [each["text"]["text"] for each in chooser["element"]["options"]] == [
        *offered,
        begin["text"]["text"],
    ]
    empty = state(required, Reason=begin["value"])
    assert cards.reason_of({"state": {"values": empty}}) is None
    own = state(required, Reason=begin["value"], **{"In your own words": "it was 12"})
    assert cards.reason_of({"state": {"values": own}}) == "it was 12"
    free = inputs(cards.vote_modal(Verdict.REJECT, samples.view(reject_reasons=offered), CARRY))["Reason"]
    assert free["optional"] is True
    assert len(free["element"]["options"]) == len(offered)
    ten = samples.view(
        reject_reasons=tuple(f"Reason {n}" for n in range(10)), reason_required=frozenset({"reject"})
    )
    many = cards.vote_modal(Verdict.REJECT, ten, CARRY)
    referee.judge_view(many)
    assert inputs(many)["Reason"]["element"]["type"] == "static_select"


def test_a_required_reason_cannot_be_left_out(samples: Any) -> None:
    """Without choices the form itself demands the words; without the rule they are optional."""
    required = cards.vote_modal(Verdict.REJECT, samples.view(reason_required=frozenset({"reject"})), CARRY)
    assert inputs(required)["Reason"]["optional"] is False
    assert inputs(cards.vote_modal(Verdict.REJECT, samples.view(), CARRY))["Reason"]["optional"] is True
    approve = cards.vote_modal(Verdict.APPROVE, samples.view(reason_required=frozenset({"approve"})), CARRY)
    assert inputs(approve)["Note"]["optional"] is False
    assert inputs(cards.vote_modal(Verdict.APPROVE, samples.view(), CARRY))["Note"]["optional"] is True
    assert {block["block_id"] for block in approve["blocks"] if block["type"] == "input"} == {REASON_BLOCK}


def test_a_vote_is_asked_for_with_what_it_is_about(samples: Any, referee: Any) -> None:
    """Facts and arguments stand above the note, so that nobody approves a form without its subject."""
    words = referee.words(cards.vote_modal(Verdict.APPROVE, samples.view(), CARRY))
    assert "price: 1,499.00 EUR" in words
    assert "order_id: 7" in words


@pytest.mark.parametrize(
    "broken", [{}, {"state": None}, {"state": {"values": {CHOICE_BLOCK: None}}}, {"state": {"values": []}}]
)
def test_a_broken_submission_has_no_reason(broken: dict[str, Any]) -> None:
    """Whatever Slack leaves out, nothing is made up."""
    assert cards.reason_of(broken) is None


# ---------------------------------------------------------------- starting an agent
AGENTS = [
    cards.AgentForm("refunds", "Handles refunds."),
    cards.AgentForm(
        "reports",
        "Writes reports.",
        {
            "type": "object",
            "properties": {"month": {"type": "string", "format": "date"}, "copies": {"type": "integer"}},
            "required": ["month"],
        },
    ),
]


def test_an_agent_is_chosen_and_asked_for_its_inputs(referee: Any) -> None:
    """The form has the inputs of the agent that is chosen, and says what was entered in their types."""
    plain = cards.agent_modal(AGENTS, carried=Carried(CARRY), task="Refund order 7")
    referee.judge_view(plain)
    assert list(inputs(plain)) == ["Agent", "Task"]
    assert inputs(plain)["Agent"]["dispatch_action"] is True
    asked = cards.read_agent_modal(state(plain), AGENTS)
    assert (asked.agent, asked.task, asked.inputs, asked.errors) == ("refunds", "Refund order 7", {}, {})
    chosen = cards.agent_modal(AGENTS, "reports")
    referee.judge_view(chosen)
    assert list(inputs(chosen)) == ["Agent", "Task", "month", "copies"]
    asked = cards.read_agent_modal(state(chosen, month="2027-01-01", copies="3"), AGENTS)
    assert (asked.agent, asked.inputs, asked.errors) == ("reports", {"month": "2027-01-01", "copies": 3}, {})


def test_what_is_missing_for_an_agent_is_said(referee: Any) -> None:
    """No task and no inputs, an agent that is gone, a field left empty: each is an error of its own input."""
    assert list(cards.read_agent_modal(state(cards.agent_modal(AGENTS)), AGENTS).errors) == [TASK_BLOCK]
    gone = state(cards.agent_modal(AGENTS))
    assert list(cards.read_agent_modal(gone, AGENTS[1:]).errors) == [AGENT_BLOCK]
    chosen = cards.agent_modal(AGENTS, "reports")
    asked = cards.read_agent_modal(state(chosen, Task="x"), AGENTS)
    assert list(asked.errors) == [inputs(chosen)["month"]["block_id"]]
    referee.judge_view(cards.agent_modal([]))
