"""A field of the form that people answer, and how its value is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter, ValidationError

from signoff.visible_text import says_nothing

MAX_TEXT = 10_000
MAX_NAMED = 10
"""Options that a sentence names."""

USER_ID = re.compile(r"[UW][A-Z0-9]{1,30}\Z", re.ASCII)


class FieldKind(StrEnum):
    """What a field of a form takes."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    DATE = "date"
    ONE_OF = "one_of"
    SEVERAL_OF = "several_of"
    PERSON = "person"
    YES_NO = "yes_no"


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A field of a form. `least` and `most` are of numbers, of a text's characters, or of how many are chosen."""

    name: str
    label: str
    kind: FieldKind
    required: bool
    hint: str = ""
    options: tuple[str, ...] = ()
    least: Decimal | None = None
    most: Decimal | None = None
    pattern: str | None = None

    def read(self, value: Any) -> Any:
        """The value as it is kept. Raises ValueError with a sentence."""
        return _READERS[self.kind](self, value)


def _text(field: AnswerField, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("This must be a text.")  # noqa: TRY004 - shown at the field, like every other
    text = value.replace("\r\n", "\n").replace("\r", "\n").strip()
    if says_nothing(text):
        raise ValueError("This must not be empty.")
    if field.least is not None and len(text) < field.least:
        raise ValueError(f"This must have at least {field.least} characters.")
    most = MAX_TEXT if field.most is None else field.most
    if len(text) > most:
        raise ValueError(f"This has {len(text):,} characters; at most {most:,} are allowed.")
    if field.pattern is not None:
        try:
            pattern_of(field.pattern).validate_python(text)
        except ValidationError:
            raise ValueError(f"This does not fit the pattern {field.pattern}.") from None
    return text


def pattern_of(pattern: str) -> TypeAdapter[str]:
    """Its engine takes linear time. Raises SchemaError."""
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


def _integer(field: AnswerField, value: Any) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool):
        raise ValueError("This must be a whole number.")
    return int(_within(field, int(value)))


def _any_number(field: AnswerField, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("This must be a number.")  # noqa: TRY004
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("This must be a finite number.")
    return _within(field, value)


def _within(field: AnswerField, value: float) -> int | float:
    exact = (
        Decimal(value) if isinstance(value, int) else Decimal(str(value))
    )  # the text of an int has a limit
    if field.least is not None and exact < field.least:
        raise ValueError(f"This must be at least {field.least}.")
    if field.most is not None and exact > field.most:
        raise ValueError(f"This must be at most {field.most}.")
    return value


def _date(_: AnswerField, value: Any) -> str:
    try:
        if isinstance(value, str) and date.fromisoformat(value).isoformat() == value:
            return value
    except ValueError:
        pass
    raise ValueError("This must be a date like 2027-01-31.")


def _one_of(field: AnswerField, value: Any) -> str:
    if value not in field.options:
        raise ValueError(_not_offered(field))
    return str(value)


def _not_offered(field: AnswerField) -> str:
    few = f": {', '.join(field.options)}" if len(field.options) <= MAX_NAMED else ""
    return f"This must be one of the options{few}."


def _several_of(field: AnswerField, value: Any) -> list[str]:
    if not isinstance(value, list) or any(each not in field.options for each in value):
        raise ValueError("Each of these must be one of the options.")
    chosen = [each for each in field.options if each in value]
    if field.least is not None and len(chosen) < field.least:
        raise ValueError(f"Choose at least {field.least}.")
    if field.most is not None and len(chosen) > field.most:
        raise ValueError(f"Choose at most {field.most}.")
    return chosen


def _person(_: AnswerField, value: Any) -> str:
    if not isinstance(value, str) or not USER_ID.match(value):
        raise ValueError("This must be a person of this workspace.")
    return value


def _yes_no(_: AnswerField, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("This must be yes or no.")  # noqa: TRY004
    return value


_READERS: Mapping[FieldKind, Callable[[AnswerField, Any], Any]] = {
    FieldKind.TEXT: _text,
    FieldKind.INTEGER: _integer,
    FieldKind.NUMBER: _any_number,
    FieldKind.DATE: _date,
    FieldKind.ONE_OF: _one_of,
    FieldKind.SEVERAL_OF: _several_of,
    FieldKind.PERSON: _person,
    FieldKind.YES_NO: _yes_no,
}
