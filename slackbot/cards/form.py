"""A form from a JSON schema and current values, and its values read back.

Values that cannot be represented exactly get no input, and an untouched input returns its exact value. Limits: Slack's
reference, "Block elements" (`initial_value` 3,000).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from signoff.canonical import MAX_INTEGER, parse_json
from signoff.errors import MalformedArguments
from signoff.formats import NO_MONEY, Money
from signoff.visible_text import hidden_positions
from slackbot.cards import blocks, inert, json_text, scalars
from slackbot.cards.schema import InputKind, SchemaProperty, properties
from slackbot.cards.values import Json

FIELD_INPUT = "signoff:field"
MAX_INITIAL = 3_000
MAX_INPUTS = 80
MAX_BYTES = 180_000
"""Of a view's 250 KB, as JSON in ASCII."""
MAX_FIXED = 300

_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,15})?\Z", re.ASCII)
_MASK = re.compile(r"⟦redacted [^⟧]*⟧")
_LEAVE_OUT = object()


class InvalidFieldInput(Exception):
    """The text is shown below the input."""


@dataclass(frozen=True, slots=True)
class Field:
    """`fixed` says why the property has no input."""

    block_id: str
    property: SchemaProperty
    initial: str = ""
    fixed: str = ""


def fields(
    schema: Mapping[str, Any], values: Mapping[str, Any], prefix: str, redacted: Callable[[str], bool]
) -> list[Field]:
    """Nobody may see or change properties in `redacted`."""
    found = properties(schema, values)
    return [_field(f"{prefix}:{at}", each, redacted(each.name)) for at, each in enumerate(found)]


def inputs(made: Sequence[Field], money: Money = NO_MONEY) -> list[Json]:
    """Draw as many fields as a view can hold; read-only ones as text."""
    rows: list[Json] = []
    used = 0
    for position, field in enumerate(made):
        row = blocks.rich_text(_fixed(field, money)) if field.fixed else _input(field)
        used += len(json.dumps(row))
        if used > MAX_BYTES or len(rows) == MAX_INPUTS:
            rest = f"… {len(made) - position:,} more arguments do not fit here; they stay as they are."
            return [*rows, blocks.rich_text(blocks.section(blocks.text(rest, italic=True)))]
        rows.append(row)
    return rows


def read(
    values: Mapping[str, Any], made: Sequence[Field], original: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of `view.state.values`, and errors by block_id; without an input, the original value."""
    result, errors = dict(original), {}
    for field in made:
        state = (values.get(field.block_id) or {}).get(FIELD_INPUT)
        if field.fixed or not isinstance(state, Mapping):
            continue
        try:
            entered = _entered(field, state, original)
        except InvalidFieldInput as problem:
            errors[field.block_id] = str(problem)
            continue
        if entered is _LEAVE_OUT:
            result.pop(field.property.name, None)
        else:
            result[field.property.name] = entered
    return result, errors


def _field(block_id: str, given: SchemaProperty, is_redacted: bool) -> Field:
    if is_redacted or (given.given and _MASK.search(json_text.compact(given.value))):
        return Field(block_id, given, fixed="redacted, cannot be edited")
    if given.kind is InputKind.FIXED:
        return Field(block_id, given, fixed="cannot be edited")
    kind, initial = _initial(given)
    if initial is None:
        size = len(json_text.compact(given.value))
        return Field(block_id, given, fixed=f"{size:,} characters, too long to be edited here")
    return Field(block_id, replace(given, kind=kind), initial)


def _initial(given: SchemaProperty) -> tuple[InputKind, str | None]:
    """The initial value, as JSON if the kind cannot represent it; None: too long."""
    value = given.value
    if value is None and not (given.kind is InputKind.JSON and given.given):
        return given.kind, ""
    match given.kind:
        case InputKind.TEXT | InputKind.LONG_TEXT if _is_exact(value):
            return given.kind, value if inert.weight(value) <= MAX_INITIAL else None
        case InputKind.INTEGER | InputKind.NUMBER if _PLAIN_NUMBER.match(json_text.compact(value)):
            return given.kind, json_text.compact(value)
        case InputKind.DATE if _is_date(value):
            return given.kind, value
        case InputKind.CHOICE | InputKind.SWITCH:
            return given.kind, ""
        case _:
            written = json_text.readable(value)
            return InputKind.JSON, written if inert.weight(written) <= MAX_INITIAL else None


def _is_exact(text: str) -> bool:
    """Whether an input returns this text exactly: nothing hidden, no blanks at the ends."""
    return text == text.strip() and not (hidden_positions(text) - _breaks(text)) and "\t" not in text


def _breaks(text: str) -> set[int]:
    return {at for at, character in enumerate(text) if character == "\n"}


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _fixed(field: Field, money: Money) -> Json:
    given = field.property
    words = inert.line(scalars.words(given.value, money.below(given.name)), MAX_FIXED)
    name = inert.line(given.name, 60) or "unnamed"
    return blocks.section(
        blocks.text(f"{name}: ", bold=True),
        blocks.text(words),
        blocks.text(f"  ({field.fixed})", italic=True),
    )


def _input(field: Field) -> Json:
    given = field.property
    element = {"action_id": FIELD_INPUT, **_element(field)}
    # Required are only values that can never be empty; others may be cleared on purpose.
    demanded = given.kind in (InputKind.INTEGER, InputKind.NUMBER) and not given.nullable
    demanded = demanded or (
        given.kind in (InputKind.CHOICE, InputKind.DATE, InputKind.JSON) and not given.nullable
    )
    optional = not demanded or not (given.required or given.given)
    name = given.name or "unnamed"
    return blocks.input_block(field.block_id, name, element, optional=optional, hint=_hint(given))


def _hint(given: SchemaProperty) -> str | None:
    as_json = "As JSON." if given.kind is InputKind.JSON else ""
    return f"{given.description} {as_json}".strip() or None


def _element(field: Field) -> Json:
    given = field.property
    begin = {"initial_value": field.initial} if field.initial else {}
    match given.kind:
        case InputKind.CHOICE:
            return _menu(given)
        case InputKind.SWITCH:
            yes = blocks.option("Yes", "yes")
            chosen = {"initial_options": [yes]} if given.value is True else {}
            return {"type": "checkboxes", "options": [yes], **chosen}
        case InputKind.INTEGER | InputKind.NUMBER:
            return {
                "type": "number_input",
                "is_decimal_allowed": given.kind is InputKind.NUMBER,
                **_bounds(given),
                **begin,
            }
        case InputKind.DATE:
            return {"type": "datepicker", **({"initial_date": field.initial} if field.initial else {})}
        case kind:
            return {
                "type": "plain_text_input",
                "multiline": kind is not InputKind.TEXT,
                **_longest(given),
                **begin,
            }


def _menu(given: SchemaProperty) -> Json:
    options = [blocks.option(_choice(each), str(at)) for at, each in enumerate(given.choices)]
    present = [at for at, each in enumerate(given.choices) if _is_same(each, given.value) and given.given]
    return {
        "type": "static_select",
        "options": options,
        **({"initial_option": options[present[0]]} if present else {}),
    }


def _choice(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else scalars.words(value)


def _bounds(given: SchemaProperty) -> Json:
    """Leave out a bound that the current value violates: the form could not be submitted."""
    found = {}
    for name, inclusive, exclusive, step in (
        ("min_value", "minimum", "exclusiveMinimum", 1),
        ("max_value", "maximum", "exclusiveMaximum", -1),
    ):
        bound = given.rules.get(inclusive)
        if bound is None and given.kind is InputKind.INTEGER and isinstance(given.rules.get(exclusive), int):
            bound = given.rules[exclusive] + step
        if not isinstance(bound, int | float) or isinstance(bound, bool):
            continue
        fits = given.value is None or (given.value - bound) * step >= 0
        if fits and _PLAIN_NUMBER.match(json_text.compact(bound)):
            found[name] = json_text.compact(bound)
    return found


def _longest(given: SchemaProperty) -> Json:
    longest = given.rules.get("maxLength")
    text = given.value if isinstance(given.value, str) else ""
    usable = given.kind is not InputKind.JSON and isinstance(longest, int) and len(text) <= longest
    return {"max_length": max(1, min(longest, MAX_INITIAL))} if usable and longest is not None else {}


def _entered(field: Field, state: Mapping[str, Any], original: Mapping[str, Any]) -> Any:
    given = field.property
    match given.kind:
        case InputKind.SWITCH:
            on = bool(state.get("selected_options"))
            return on if given.given or given.required or on else _LEAVE_OUT
        case InputKind.CHOICE:
            return _chosen(given, state.get("selected_option"), original)
        case InputKind.DATE:
            typed = state.get("selected_date")
        case _:
            typed = state.get("value")
    typed = typed.replace("\r\n", "\n") if isinstance(typed, str) else ""
    if typed == field.initial and given.given:
        return original[given.name]
    if not typed.strip() and not (given.kind in (InputKind.TEXT, InputKind.LONG_TEXT) and typed):
        return _emptied(given)
    return _typed(given, typed)


def _typed(given: SchemaProperty, typed: str) -> Any:
    match given.kind:
        case InputKind.INTEGER | InputKind.NUMBER:
            return _number(typed, whole=given.kind is InputKind.INTEGER)
        case InputKind.DATE:
            if not _is_date(typed):
                raise InvalidFieldInput("This is not a date like 2027-01-31.")
            return typed
        case InputKind.JSON:
            return _json(typed)
        case _:
            return typed


def _emptied(given: SchemaProperty) -> Any:
    if given.nullable and (given.given or given.required):
        return None
    if not given.required and (given.nullable or not given.given):
        return _LEAVE_OUT
    if given.kind in (InputKind.TEXT, InputKind.LONG_TEXT):
        return ""
    raise InvalidFieldInput("This must not be empty.")


def _chosen(given: SchemaProperty, option: Any, original: Mapping[str, Any]) -> Any:
    value = option.get("value") if isinstance(option, Mapping) else None
    if isinstance(value, str) and value.isdecimal() and len(value) < 10 and int(value) < len(given.choices):
        return given.choices[int(value)]
    if given.given and not any(_is_same(each, given.value) for each in given.choices):
        return original[given.name]  # no option was selected initially
    return _emptied(given)


def _number(typed: str, *, whole: bool) -> int | float:
    try:
        exact = Decimal(typed.strip())
    except InvalidOperation:
        raise InvalidFieldInput("This is not a number.") from None
    if not exact.is_finite() or abs(exact) > MAX_INTEGER:
        raise InvalidFieldInput(f"This must be between -{MAX_INTEGER} and {MAX_INTEGER}.")
    if exact == exact.to_integral_value():
        return int(exact)
    if whole:
        raise InvalidFieldInput("This must be a whole number.")
    if Decimal(repr(float(exact))) != exact:
        raise InvalidFieldInput("This number has too many digits; about 15 are kept exactly.")
    return float(exact)


def _json(typed: str) -> Any:
    try:
        return parse_json(typed)
    except MalformedArguments as problem:
        raise InvalidFieldInput(inert.line(f"This is not valid JSON: {problem}", 200)) from None


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
