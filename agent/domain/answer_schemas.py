"""The JSON Schemas that people can be asked for: an `enum` of texts, or an object of a few fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any

from pydantic_core import SchemaError

from agent.domain.answer_fields import MAX_TEXT, AnswerField, FieldKind, pattern_of
from signoff.errors import UnusableForm
from signoff.visible_text import says_nothing

MAX_FIELDS = 10
MAX_OPTIONS = 100

CHOICE = "answer"
"""The name of the only field of a question with options."""

PERSON = "slack-user"
"""The `format` of a text that is a Slack user id."""

NO_FORM = "ask for an `enum` of texts, or for an object with `properties`"
_MAX_REFERENCES = 20


def is_choice(schema: Mapping[str, Any]) -> bool:
    """Return whether one of some options is asked for, and no form."""
    return "enum" in schema and schema.get("type", "string") == "string"


def fields_of(schema: Mapping[str, Any], order: Collection[str] = ()) -> tuple[AnswerField, ...]:
    """Return the fields that a schema asks for, in the author's order, if that is known. Raises UnusableForm."""
    if is_choice(schema):
        _check_shapes(CHOICE, schema)
        _check_rules(CHOICE, schema, {"enum", "type"})
        return (AnswerField(CHOICE, "Choose one", FieldKind.ONE_OF, required=True, options=_options(schema)),)
    declared = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(declared, Mapping):
        raise UnusableForm(NO_FORM)
    if len(declared) > MAX_FIELDS:
        raise UnusableForm(f"a form has at most {MAX_FIELDS} fields, and this one has {len(declared)}")
    _check_shapes("the form", schema)
    _check_rules("the form", schema, _OF_OBJECTS)
    needed = schema.get("required", [])
    if not isinstance(needed, list) or any(each not in list(declared) for each in needed):
        raise UnusableForm("`required` is a list of the form's fields")
    names = order if set(order) == set(declared) else declared
    return tuple(_field(name, declared[name], schema, name in needed) for name in names)


def with_texts(schema: Any, change: Callable[[str], str]) -> Any:
    """Return the schema with its texts changed, so that it still has the same fields: names and rules stay.

    A pattern that would change is left out: what it becomes would be another one, or none.
    """
    if isinstance(schema, list | tuple):
        return [with_texts(each, change) for each in schema]
    if not isinstance(schema, Mapping):
        return _changed(schema, change)
    shown: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _BY_NAME and isinstance(value, Mapping):
            shown[keyword] = {name: with_texts(each, change) for name, each in value.items()}
        elif keyword in _WITHIN:
            shown[keyword] = with_texts(value, change)
        elif keyword in _NO_TEXTS:
            shown[keyword] = value
        elif keyword != "pattern" or _changed(value, change) == value:
            shown[keyword] = _changed(value, change)
    return shown


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(each, change) for name, each in value.items()}
    return [_changed(each, change) for each in value] if isinstance(value, list | tuple) else value


def _options(schema: Mapping[str, Any], where: str = "the answer") -> tuple[str, ...]:
    offered = schema.get("enum")
    texts = [each for each in offered if isinstance(each, str)] if isinstance(offered, list) else []
    if not texts or not isinstance(offered, list) or len(texts) != len(offered):
        raise UnusableForm(f"{where}: options are a list of texts")
    if len(texts) > MAX_OPTIONS:
        raise UnusableForm(f"{where}: at most {MAX_OPTIONS} options, and there are {len(texts)}")
    return tuple(texts)


def _field(name: str, rules: Any, schema: Mapping[str, Any], required: bool) -> AnswerField:
    rules = _resolved(rules, schema, name)
    if says_nothing(name):
        raise UnusableForm("a field needs a name")
    kind, options = _kind(name, rules)
    _check_rules(name, rules, _CHECKED[kind])
    least, most = _bounds(name, kind, rules)
    if kind is FieldKind.SEVERAL_OF:
        most = Decimal(len(options)) if most is None else min(most, Decimal(len(options)))
    if least is not None and most is not None and least > most:
        raise UnusableForm(f"{name}: nothing is both at least {least} and at most {most}")
    field = AnswerField(
        name=name,
        label=rules.get("title") or name,
        kind=kind,
        required=required,
        hint=rules.get("description", ""),
        options=options,
        least=least,
        most=most,
        pattern=rules.get("pattern") if kind is FieldKind.TEXT else None,
    )
    if field.pattern is not None:
        try:
            pattern_of(field.pattern)
        except SchemaError:
            raise UnusableForm(f"{name}: the pattern {field.pattern!r} cannot be used") from None
    return field


def _kind(name: str, rules: Mapping[str, Any]) -> tuple[FieldKind, tuple[str, ...]]:
    listed = "enum" if "enum" in rules else "const"
    if listed in rules and rules.get("type", "string") == "string":
        _check_rules(name, rules, {"type", listed})
        offered = rules if listed == "enum" else {"enum": [rules["const"]]}
        return FieldKind.ONE_OF, _options(offered, name)
    match rules.get("type"), rules.get("format"):
        case "string", "date":
            return FieldKind.DATE, ()
        case "string", form if form == PERSON:
            return FieldKind.PERSON, ()
        case "string", None:
            return FieldKind.TEXT, ()
        case "integer", form if form in _RANGES[FieldKind.INTEGER]:
            return FieldKind.INTEGER, ()
        case "number", form if form in _RANGES[FieldKind.NUMBER]:
            return FieldKind.NUMBER, ()
        case "boolean", _:
            return FieldKind.YES_NO, ()
        case "array", _ if isinstance(rules.get("items"), Mapping) and "enum" in rules["items"]:
            _check_rules(name, rules["items"], {"enum", "type"})
            return FieldKind.SEVERAL_OF, _options(rules["items"], name)
        case found, form:
            kind = f"{found or 'this kind of value'}{f' ({form})' if form else ''}"
            raise UnusableForm(
                f"{name}: {kind} cannot be asked for in a form; use a text, a number, a date, one or several of some "
                "texts, a person, or yes and no"
            )


def _check_rules(name: str, rules: Mapping[str, Any], checked: Collection[str]) -> None:
    """Raises UnusableForm for a rule that no answer would be held to."""
    if unchecked := sorted(_RULES.intersection(rules).difference(checked)):
        raise UnusableForm(f"{name}: `{unchecked[0]}` cannot be asked for in a form")


def _check_shapes(name: str, rules: Mapping[str, Any]) -> None:
    """Raises UnusableForm for a keyword whose value is none of its kind, which would say nothing."""
    for keyword, (kind, words) in _SHAPES.items():
        if keyword in rules and not isinstance(rules[keyword], kind):
            raise UnusableForm(f"{name}: `{keyword}` is {words}")


def _resolved(rules: Any, schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Follow references, and those of a list's items."""
    found = _followed(rules, schema, name)
    items = found.get("items")
    return {**found, "items": _followed(items, schema, name)} if isinstance(items, Mapping) else found


def _followed(rules: Any, schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An alternative that is null only makes the field optional."""
    title: dict[str, Any] = {}
    for _ in range(_MAX_REFERENCES):
        if not isinstance(rules, Mapping):
            break
        _check_shapes(name, rules)
        title = {key: rules[key] for key in ("title", "description") if key in rules} | title
        if isinstance(reference := rules.get("$ref"), str):
            _check_rules(name, rules, {"$ref"})
            rules = _found(reference, schema)
            title.setdefault("title", name)  # not that of a class
        elif isinstance(parts := rules.get("allOf"), list) and len(parts) == 1:
            _check_rules(name, rules, {"allOf"})
            rules = parts[0]
        elif isinstance(parts := rules.get("anyOf"), list):
            _check_rules(name, rules, {"anyOf"})
            some = [each for each in parts if not (isinstance(each, Mapping) and each.get("type") == "null")]
            if len(some) != 1:
                raise UnusableForm(f"{name}: a field of a form has one type")
            rules = some[0]
        else:
            return {**rules, **title}
    raise UnusableForm(f"{name}: its schema leads nowhere")


def _found(reference: str, schema: Mapping[str, Any]) -> Any:
    """The definition that `#/$defs/Size` names; references lead nowhere else."""
    start, _, name = reference.removeprefix("#/").partition("/")
    known = schema.get(start) if reference.startswith("#/") and start in _DEFINITIONS else None
    return known.get(name) if isinstance(known, Mapping) else None


def _bounds(name: str, kind: FieldKind, rules: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    match kind:
        case FieldKind.TEXT:
            least, most = _count(name, rules, "minLength"), _count(name, rules, "maxLength")
            # An empty text is no answer.
            longest = Decimal(MAX_TEXT)
            return max(least or Decimal(1), Decimal(1)), longest if most is None else min(most, longest)
        case FieldKind.SEVERAL_OF:
            return _count(name, rules, "minItems"), _count(name, rules, "maxItems")
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _range(name, kind, rules)
        case _:
            return None, None


def _range(name: str, kind: FieldKind, rules: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    least, most = _number(name, rules, "minimum"), _number(name, rules, "maximum")
    above, below = _number(name, rules, "exclusiveMinimum"), _number(name, rules, "exclusiveMaximum")
    if kind is FieldKind.INTEGER:
        least = None if least is None else Decimal(math.ceil(least))
        most = None if most is None else Decimal(math.floor(most))
        above = None if above is None else Decimal(math.floor(above) + 1)
        below = None if below is None else Decimal(math.ceil(below) - 1)
    elif above is not None or below is not None:
        raise UnusableForm(f"{name}: a number's bounds are `minimum` and `maximum`, which it may reach")
    first, last = _RANGES[kind][rules.get("format")]
    lower = [each for each in (least, above, first) if each is not None]
    upper = [each for each in (most, below, last) if each is not None]
    return max(lower, default=None), min(upper, default=None)


def _count(name: str, rules: Mapping[str, Any], keyword: str) -> Decimal | None:
    found = _number(name, rules, keyword)
    if found is not None and (found < 0 or found != found.to_integral_value()):
        raise UnusableForm(f"{name}: `{keyword}` is a whole number from 0")
    return found


def _number(name: str, rules: Mapping[str, Any], keyword: str) -> Decimal | None:
    if keyword not in rules:
        return None
    value = rules[keyword]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableForm(f"{name}: `{keyword}` is a number")
    return Decimal(str(value))


_DEFINITIONS = ("$defs", "definitions")
_BY_NAME = frozenset({"properties", *_DEFINITIONS})
"""Schemas, each under a name of the author's."""
_WITHIN = frozenset({"allOf", "anyOf", "items"})
"""Schemas within a schema, so far as a form may have them."""
_NO_TEXTS = frozenset({"$ref", "format", "required", "type"})
"""Strings that people do not read: names of types, fields and definitions."""
_OF_OBJECTS = frozenset({"type", "properties", "required", "additionalProperties"})
_CHECKED: Mapping[FieldKind, frozenset[str]] = {
    FieldKind.TEXT: frozenset({"type", "minLength", "maxLength", "pattern"}),
    **dict.fromkeys(
        (FieldKind.INTEGER, FieldKind.NUMBER),
        frozenset({"type", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    ),
    **dict.fromkeys((FieldKind.DATE, FieldKind.PERSON), frozenset({"type", "format"})),
    FieldKind.ONE_OF: frozenset({"type", "enum", "const"}),
    FieldKind.SEVERAL_OF: frozenset({"type", "items", "minItems", "maxItems", "uniqueItems"}),
    FieldKind.YES_NO: frozenset({"type"}),
}
"""The rules of JSON Schema that an answer's field is held to."""
_RULES = frozenset(
    {
        "$dynamicRef", "$ref", "additionalProperties", "allOf", "anyOf", "const", "contains", "dependencies",
        "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "if",
        "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems",
        "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties",
        "prefixItems", "properties", "propertyNames", "required", "then", "type", "unevaluatedItems",
        "unevaluatedProperties", "uniqueItems",
    }
)  # fmt: skip
"""All that a JSON Schema may require of a value; the rest only describes it."""
_SHAPES: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("title", "description", "pattern", "format"), (str, "a text")),
    "uniqueItems": (bool, "true or false"),
    "additionalProperties": (bool | Mapping, "true, false or a schema"),
}
_RANGES: Mapping[FieldKind, Mapping[str | None, tuple[Decimal | None, Decimal | None]]] = {
    FieldKind.INTEGER: {
        **{f"int{bits}": (Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1)) for bits in (8, 16, 32)},
        **{f"uint{bits}": (Decimal(0), Decimal(2**bits - 1)) for bits in (8, 16, 32)},
        **dict.fromkeys((None, "int64", "int"), (None, None)),  # wider than what canonical JSON keeps
        **dict.fromkeys(("uint64", "uint"), (Decimal(0), None)),
    },
    FieldKind.NUMBER: dict.fromkeys((None, "double"), (None, None)),
}
"""What the `format` of a number allows, by the kind of field: schemas made from typed languages have one."""
