"""A question that wants more than yes or no: its options as buttons, its form, and what people answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.domain.answer_fields import MAX_TEXT, AnswerField, FieldKind
from agent.domain.answer_schemas import CHOICE
from agent.domain.answers import AnswerForm, UnfitAnswer
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import VERDICTS
from slackbot.cards import blocks, inert, scalars
from slackbot.cards.modals import modal
from slackbot.cards.values import ACTION_CHOOSE, ACTION_GIVE_ANSWER, CALLBACK_ANSWER, Json, button_value

MAX_RADIO_BUTTONS = 10
MAX_OPTION = 75
MAX_INPUT = 3_000
MAX_LISTED = 12_000
"""Characters of options that stand above their numbers in a form."""
MAX_INPUTS = 200_000
"""Bytes of a form's inputs; Slack takes 250 KB of all."""
MAX_VALUE = 600
MAX_QUESTION = 2_000
LONG_TEXT = 80
OTHER = "signoff:other"
FIELD = "signoff:answer:"
INPUT = "signoff:answer_input"

_EITHER = "Choose one of the options or write an answer of your own, not both."
_TOO_LONG = "Its options are too long for a form in Slack. Please answer on its page."
OWN_WORDS = "Or something else, in your own words"
_AUTHORISES_NOTHING = "The agent reads the answer. It authorises nothing by itself."


def answer_row(view: RequestView, about: str) -> list[Json]:
    """The buttons of a waiting question: each short option, or one that opens the form."""
    form, value = view.answer_form, button_value(view)
    if form is None:
        return []
    options = offered(form)
    if not options:
        words = VERDICTS[Verdict.ANSWER]
        return [blocks.button(words.button, ACTION_GIVE_ANSWER, value, about, words.style)]
    made = [
        blocks.button(inert.line(each, blocks.BUTTON_LIMIT), action_id, value, about)
        for each, action_id in zip(options, ACTION_CHOOSE, strict=False)
    ]
    own = [blocks.button("Something else…", ACTION_GIVE_ANSWER, value, about)] if form.other else []
    return [*made, *own]


def offered(form: AnswerForm) -> tuple[str, ...]:
    """The options that are buttons; none if there are many, or one is too long to be read on a button."""
    options = form.fields[0].options if form.is_choice else ()
    fit = len(options) <= len(ACTION_CHOOSE) and all(
        inert.weight(inert.line(each, 1000)) <= blocks.BUTTON_LIMIT for each in options
    )
    return options if fit else ()


def wanted(view: RequestView) -> list[Json]:
    """What a waiting question asks for, where no buttons show it."""
    form = view.answer_form
    if form is None or offered(form):
        return []
    if form.is_choice:
        named = [inert.line(each, 120) for each in form.fields[0].options]
        more = [f"… and {len(named) - 10:,} more"] if len(named) > 10 else []
        return [blocks.bullets(blocks.section(blocks.text(each)) for each in [*named[:10], *more])]
    named = [inert.line(each.label, 60) for each in form.fields]
    return [blocks.section(blocks.text("It asks for: ", bold=True), blocks.text(" · ".join(named)))]


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


def read_question_modal(values: Mapping[str, Any], form: AnswerForm) -> Any:
    """The value that `view.state.values` has, as the form's `read` takes it. Raises UnfitAnswer."""
    found = {
        each.name: entered
        for at, each in enumerate(form.fields)
        if (entered := read_entry(each, _texts(each, _state(values, f"{FIELD}{at}")))) is not None
    }
    return read_question(found, form, _state(values, OTHER).get("value"))


def read_question(entries: Mapping[str, Any], form: AnswerForm, own: object = None) -> Any:
    """The entries of a form, or the one that was chosen, or own words in its place. Raises UnfitAnswer."""
    if not form.is_choice:
        return dict(entries)
    words = own.strip() if isinstance(own, str) and form.other else ""
    if bool(words) == (CHOICE in entries):
        raise UnfitAnswer({CHOICE: _EITHER if form.other else "Choose one of the options."})
    return words or entries[CHOICE]


def read_entry(field: AnswerField, texts: Sequence[str]) -> Any:
    """What was entered, as the form's `read` takes it; None if nothing was. Options come as their numbers.

    Raises UnfitAnswer.
    """
    entered = "\n".join(texts)  # several where one is asked for are none of its kind
    match field.kind:
        case FieldKind.ONE_OF:
            return _option(field, entered) if entered else None
        case FieldKind.SEVERAL_OF:
            return [_option(field, each) for each in texts] or ([] if field.required else None)
        case FieldKind.YES_NO:
            return {"yes": True, "no": False}.get(entered, entered or None)
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _number(entered)
        case FieldKind.TEXT:
            return entered if entered.strip() else None
        case _:
            return entered or None


def question_errors(view: Mapping[str, Any], form: AnswerForm, unfit: UnfitAnswer) -> dict[str, str]:
    """Each problem at its input, by block_id; Slack refuses errors for other blocks."""
    there = [block["block_id"] for block in view.get("blocks", []) if block.get("type") == "input"]
    places = {each.name: f"{FIELD}{at}" for at, each in enumerate(form.fields)}
    at = {places.get(name, ""): inert.line(problem, 200) for name, problem in unfit.problems.items()}
    known = {block_id: problem for block_id, problem in at.items() if block_id in there}
    return known or {each: inert.line(str(unfit), 200) for each in there[-1:]}


def answer_in_words(value: Any) -> str:
    """`us`, or `item: pens, count: 3`. Not inert."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {answer_in_words(each)}" for name, each in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(answer_in_words, value)) or "nothing"
    return "yes" if value is True else "no" if value is False else scalars.words(value)


def answered(view: RequestView) -> list[Json]:
    """What people answered: one line, or one for each field."""
    form, value = view.answer_form, view.answer
    if form is None or value is None:
        return []
    if not isinstance(value, Mapping) or not value:
        return [blocks.quote(blocks.text(inert.paragraph(answer_in_words(value), MAX_VALUE, 8)))]
    lines = [_line(each, value[each.name]) for each in form.fields if each.name in value]
    return [blocks.bullets(lines) if lines else blocks.section(blocks.text(answer_in_words(value)))]


def _line(field: AnswerField, value: Any) -> Json:
    named = inert.line(field.label, 60)
    label = blocks.text(f"{named} " if named.endswith(("?", ":")) else f"{named}: ", bold=True)
    if field.kind is FieldKind.PERSON:
        return blocks.section(label, blocks.mention(str(value)))
    return blocks.section(label, blocks.text(inert.line(answer_in_words(value), MAX_VALUE) or "…"))


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


def _option(field: AnswerField, number: str) -> str:
    """Raises UnfitAnswer for what is no number of an option, which a choice would take for own words."""
    if number.isdecimal() and len(number) < 4 and int(number) < len(field.options):
        return field.options[int(number)]
    raise UnfitAnswer({field.name: "This must be one of the options."})


def _number(typed: str) -> Any:
    """What is no number is left to the form, which refuses it."""
    if not typed.strip():
        return None
    if "_" in typed:  # which Python would read
        return typed
    try:
        return int(typed)
    except ValueError:
        pass
    try:
        return float(typed)
    except ValueError:
        return typed
