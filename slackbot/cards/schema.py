"""Which input fits a property of pydantic's JSON schema (2020-12); if none does, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from slackbot.cards import inert

MAX_OPTIONS = 100
MAX_REFERENCES = 20
LONG_TEXT = 80


class InputKind(Enum):
    """A kind of form input for a property; JSON takes any value, and a FIXED one cannot be changed."""

    TEXT = "text"
    LONG_TEXT = "long_text"
    CHOICE = "choice"
    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"
    DATE = "date"
    JSON = "json"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class SchemaProperty:
    """`given` is False if the value is absent."""

    name: str
    kind: InputKind
    rules: Mapping[str, Any]
    nullable: bool
    required: bool
    value: Any = None
    given: bool = False
    choices: tuple[Any, ...] = field(default=())

    @property
    def description(self) -> str:
        """The schema's description; not inert."""
        described = self.rules.get("description")
        return described if isinstance(described, str) else ""


def properties(schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[SchemaProperty]:
    """Values that the schema does not name follow."""
    declared = schema.get("properties")
    known = declared if isinstance(declared, Mapping) else {}
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    found = [
        _property(str(name), rules, schema, values, name in needed)
        for name, rules in known.items()
        if isinstance(rules, Mapping)
    ]
    seen = {each.name for each in found}
    others = [
        SchemaProperty(name, InputKind.FIXED, {}, nullable=False, required=True, value=value, given=True)
        for name, value in values.items()
        if name not in seen
    ]
    return found + others


def _property(
    name: str, rules: Mapping[str, Any], schema: Mapping[str, Any], values: Mapping[str, Any], required: bool
) -> SchemaProperty:
    given = name in values
    value = values.get(name)
    inner, nullable = _resolved(rules, schema, value)
    description = rules.get("description", inner.get("description"))
    rules = {**inner, "description": description}
    choices = _choices(inner)
    kind = InputKind.CHOICE if choices else _kind(inner, value)
    if kind is InputKind.SWITCH and nullable:
        kind, choices = InputKind.CHOICE, (True, False)
    elif kind is InputKind.SWITCH and given and value is None:
        kind = InputKind.JSON  # off would not be what is there
    return SchemaProperty(name, kind, rules, nullable, required, value, given, choices)


def _resolved(
    rules: Mapping[str, Any], schema: Mapping[str, Any], value: Any
) -> tuple[Mapping[str, Any], bool]:
    """Also returns whether null is among the alternatives."""
    nullable = False
    for _ in range(MAX_REFERENCES):
        if isinstance(reference := rules.get("$ref"), str):
            rules = _resolve_reference(reference, schema)
        elif isinstance(each := rules.get("allOf"), list) and len(each) == 1 and isinstance(each[0], Mapping):
            rules = each[0]
        elif isinstance(either := rules.get("anyOf"), list):
            some = [each for each in either if isinstance(each, Mapping)]
            nullable = nullable or any(each.get("type") == "null" for each in some)
            rules = _alternative([each for each in some if each.get("type") != "null"], value)
        elif isinstance(types := rules.get("type"), list):
            nullable = nullable or "null" in types
            kinds = [each for each in types if each != "null"]
            rules = {**rules, "type": kinds[0] if len(kinds) == 1 else None}
        else:
            return rules, nullable
    return {}, nullable


def _alternative(some: Sequence[Mapping[str, Any]], value: Any) -> Mapping[str, Any]:
    if len(some) == 1:
        return some[0]
    fitting = [each for each in some if _is_of(each.get("type"), value)]
    return fitting[0] if len(fitting) == 1 else {}


def _is_of(kind: Any, value: Any) -> bool:
    match value:
        case bool():
            return bool(kind == "boolean")
        case int():
            return kind in ("integer", "number")
        case float():
            return bool(kind == "number")
        case str():
            return bool(kind == "string")
        case _:
            return False


def _resolve_reference(reference: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = schema
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _choices(rules: Mapping[str, Any]) -> tuple[Any, ...]:
    """Options that fit a menu; choosing nothing means null."""
    offered = rules.get("enum")
    if not isinstance(offered, list):
        return ()
    plain = [each for each in offered if isinstance(each, str | int | float)]
    labels = {inert.line(str(each), 75) for each in plain}
    fits = len(plain) == len(offered) == len(labels) and 0 < len(plain) <= MAX_OPTIONS
    return tuple(plain) if fits else ()


def _kind(rules: Mapping[str, Any], value: Any) -> InputKind:
    if "const" in rules:
        return InputKind.FIXED
    match rules.get("type"):
        case "boolean" if value is None or isinstance(value, bool):
            return InputKind.SWITCH
        case "integer" if value is None or _is_of("integer", value):
            return InputKind.INTEGER
        case "number" if value is None or _is_of("number", value):
            return InputKind.NUMBER
        case "string" if value is None or isinstance(value, str):
            return _text_kind(rules, value or "")
        case _:
            return InputKind.JSON


def _text_kind(rules: Mapping[str, Any], value: str) -> InputKind:
    if rules.get("format") == "date":
        return InputKind.DATE
    if "enum" in rules:
        return InputKind.JSON
    longest = rules.get("maxLength")
    short = isinstance(longest, int) and longest <= LONG_TEXT
    return InputKind.LONG_TEXT if "\n" in value or (len(value) > LONG_TEXT and not short) else InputKind.TEXT
