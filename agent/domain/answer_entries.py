"""What a person entered in the form of a question, as texts: the same from Slack and from the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.domain.answer_fields import AnswerField, FieldKind
from agent.domain.answer_schemas import CHOICE
from agent.domain.answers import AnswerForm, UnfitAnswer

_EITHER = "Choose one of the options or write an answer of your own, not both."


@dataclass(frozen=True, slots=True)
class AnswerEntries:
    """The texts of each field, in the form's order; options come as their numbers. `own`: words in place of one."""

    form: AnswerForm
    texts: Sequence[Sequence[str]]
    own: object = None

    def read(self) -> Any:
        """The value as the form's `read` takes it, which refuses what is none of its kind. Raises UnfitAnswer."""
        found = {
            field.name: entered
            for field, texts in zip(self.form.fields, self.texts, strict=True)
            if (entered := _read(field, [text for each in texts if (text := each.strip())])) is not None
        }
        if not self.form.is_choice:
            return found
        own = self.own.strip() if isinstance(self.own, str) and self.form.other else ""
        if bool(own) == (CHOICE in found):
            raise UnfitAnswer({CHOICE: _EITHER if self.form.other else "Choose one of the options."})
        return own or found[CHOICE]


def _read(field: AnswerField, texts: Sequence[str]) -> Any:
    """None if nothing was entered, which is a choice of nothing where one is required."""
    if field.kind is FieldKind.SEVERAL_OF:
        return [_option(field, each) for each in texts] or ([] if field.required else None)
    if not texts:
        return None
    entered = "\n".join(texts)  # several where one is asked for are none of its kind
    match field.kind:
        case FieldKind.ONE_OF:
            return _option(field, entered)
        case FieldKind.YES_NO:
            return {"yes": True, "no": False}.get(entered, entered)
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _number(entered)
        case _:
            return entered


def _option(field: AnswerField, number: str) -> str:
    """Raises UnfitAnswer for what is no number of an option, which a choice would take for own words."""
    if number.isdecimal() and len(number) < 4 and int(number) < len(field.options):
        return field.options[int(number)]
    raise UnfitAnswer({field.name: "This must be one of the options."})


def _number(typed: str) -> Any:
    """What is no number is left to the form, which refuses it."""
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
