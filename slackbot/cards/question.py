"""A question that wants more than yes or no: its options as buttons, and what people answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.answer_fields import AnswerField, FieldKind
from agent.domain.answers import AnswerForm
from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import VERDICTS
from slackbot.cards import blocks, inert, scalars
from slackbot.cards.values import ACTION_CHOOSE, ACTION_GIVE_ANSWER, Json, button_value

MAX_VALUE = 600


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
