"""The form of a question that wants more than yes or no: its inputs, and what was entered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent.domain.answer_entries import AnswerEntries
from agent.domain.answer_fields import MAX_TEXT, AnswerField, FieldKind
from agent.domain.answers import AnswerForm, UnfitAnswer
from agent.domain.request_view import RequestView
from slackbot.cards import blocks, inert
from slackbot.cards.modals import modal
from slackbot.cards.values import CALLBACK_ANSWER, Json

MAX_RADIO_BUTTONS = 10
MAX_OPTION = 75
MAX_INPUT = 3_000
MAX_LISTED = 12_000
"""Characters of options that stand above their numbers in a form."""
MAX_INPUTS = 200_000
"""Bytes of a form's inputs; Slack takes 250 KB of all."""
MAX_QUESTION = 2_000
LONG_TEXT = 80
OTHER = "signoff:other"
FIELD = "signoff:answer:"
INPUT = "signoff:answer_input"

_TOO_LONG = "Its options are too long for a form in Slack. Please answer on its page."
OWN_WORDS = "Or something else, in your own words"
_AUTHORISES_NOTHING = "The agent reads the answer. It authorises nothing by itself."


def question_modal(view: RequestView, carry: str) -> Json:
    """The form of the (masked) question."""
    form = view.answer_form
    if form is None:
        raise ValueError(f"request {view.id} wants no answer")
    asked = inert.line(view.description, MAX_QUESTION) or "…"
    head = [blocks.section(blocks.text(asked, bold=True)), blocks.section(blocks.text(_AUTHORISES_NOTHING))]
    listed = [part for each in form.fields for part in _listed(each, headed=not form.is_choice)]
    inputs = [
        _input(at, each, optional=not each.required or form.other) for at, each in enumerate(form.fields)
    ]
    fits = blocks.size(listed) <= MAX_LISTED and len(json.dumps(inputs)) <= MAX_INPUTS
    below = listed if fits else [blocks.section(blocks.text(_TOO_LONG))]
    rows = [blocks.rich_text(*head), *([blocks.rich_text(*below)] if below else [])]
    if not fits:
        inputs = []
    elif form.other:
        element = {"type": "plain_text_input", "action_id": INPUT, "multiline": True, "max_length": MAX_INPUT}
        inputs.append(blocks.input_block(OTHER, OWN_WORDS, element, optional=True))
    return modal(
        "Answer",
        [*blocks.with_ids(rows, carry), *inputs],
        close="Cancel" if fits else "Close",
        submit="Answer" if fits else None,
        callback=CALLBACK_ANSWER,
        carry=carry,
    )


def read_question_modal(values: Mapping[str, Any], form: AnswerForm) -> AnswerEntries:
    """What `view.state.values` has."""
    texts = [_texts(each, _state(values, f"{FIELD}{at}")) for at, each in enumerate(form.fields)]
    return AnswerEntries(form, texts, _state(values, OTHER).get("value"))


def question_errors(view: Mapping[str, Any], form: AnswerForm, unfit: UnfitAnswer) -> dict[str, str]:
    """Each problem at its input, by block_id; Slack refuses errors for other blocks."""
    there = [block["block_id"] for block in view.get("blocks", []) if block.get("type") == "input"]
    places = {each.name: f"{FIELD}{at}" for at, each in enumerate(form.fields)}
    at = {places.get(name, ""): inert.line(problem, 200) for name, problem in unfit.problems.items()}
    known = {block_id: problem for block_id, problem in at.items() if block_id in there}
    return known or {each: inert.line(str(unfit), 200) for each in there[-1:]}


def _listed(field: AnswerField, *, headed: bool) -> Iterator[Json]:
    """Options that are too long for a menu, each whole and with its number."""
    if _is_numbered(field):
        if headed:
            yield blocks.section(blocks.text(inert.line(field.label, 150), bold=True))
        for number, each in enumerate(field.options, 1):
            yield blocks.section(blocks.text(f"{number}. "), *blocks.texts(inert.line(each, 10 * MAX_TEXT)))


def _is_numbered(field: AnswerField) -> bool:
    return any(inert.weight(inert.line(each, 10 * MAX_TEXT)) > MAX_OPTION for each in field.options)


def _input(at: int, field: AnswerField, *, optional: bool) -> Json:
    element = {"action_id": INPUT, **_element(field)}
    return blocks.input_block(
        f"{FIELD}{at}", field.label, element, optional=optional, hint=field.hint or None
    )


def _element(field: AnswerField) -> Json:
    match field.kind:
        case FieldKind.ONE_OF:
            kind = "radio_buttons" if len(field.options) <= MAX_RADIO_BUTTONS else "static_select"
            return {"type": kind, "options": _options(field)}
        case FieldKind.SEVERAL_OF:
            kind = "checkboxes" if len(field.options) <= MAX_RADIO_BUTTONS else "multi_static_select"
            return {"type": kind, "options": _options(field)}
        case FieldKind.YES_NO:
            return {
                "type": "radio_buttons",
                "options": [blocks.option("Yes", "yes"), blocks.option("No", "no")],
            }
        case FieldKind.PERSON:
            return {"type": "users_select"}
        case FieldKind.DATE:
            return {"type": "datepicker"}
        case FieldKind.INTEGER | FieldKind.NUMBER:
            bounds = {"min_value": field.least, "max_value": field.most}
            known = {name: format(bound, "f") for name, bound in bounds.items() if bound is not None}
            return {"type": "number_input", "is_decimal_allowed": field.kind is FieldKind.NUMBER, **known}
        case _:
            most = min(MAX_INPUT, int(field.most or MAX_INPUT))
            return {"type": "plain_text_input", "multiline": most > LONG_TEXT, "max_length": most}


def _options(field: AnswerField) -> list[Json]:
    numbered = _is_numbered(field)
    return [
        blocks.option(f"{at + 1}." if numbered else each, str(at)) for at, each in enumerate(field.options)
    ]


def _state(values: Mapping[str, Any], block_id: str) -> Mapping[str, Any]:
    found = (values.get(block_id) or {}).get(INPUT)
    return found if isinstance(found, Mapping) else {}


def _texts(field: AnswerField, state: Mapping[str, Any]) -> list[str]:
    """What Slack sends of an input, as texts."""
    match field.kind:
        case FieldKind.ONE_OF | FieldKind.YES_NO:
            chosen = [state.get("selected_option")]
        case FieldKind.SEVERAL_OF:
            several = state.get("selected_options")
            chosen = several if isinstance(several, list) else []
        case FieldKind.PERSON:
            chosen = [{"value": state.get("selected_user")}]
        case FieldKind.DATE:
            chosen = [{"value": state.get("selected_date")}]
        case _:
            chosen = [state]
    found = [each.get("value") for each in chosen if isinstance(each, Mapping)]
    return [each for each in found if isinstance(each, str)]
