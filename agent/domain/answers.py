"""What a question wants besides yes or no: a choice or a form, and the answer that people give."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError, from_json

from agent.domain.people import CHANNEL
from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments, SignoffError, UnusableForm
from signoff.values import Person
from signoff.visible_text import says_nothing

MAX_FIELDS = 10
MAX_OPTIONS = 100
MAX_TEXT = 10_000
MAX_ANSWERS = 20
"""Equal answers that a question may require."""

REQUESTER = "requester"
"""The requester, among `answerers`."""
REVIEWERS = "reviewers"
"""The checkpoint's reviewers, among `answerers`."""
EVERYBODY = (REQUESTER, REVIEWERS)

CHOICE = "answer"
"""The name of the only field of a question with options."""

PERSON = "slack-user"
"""The `format` of a text that is a Slack user id."""

_NAMES = (REQUESTER, REVIEWERS, CHANNEL)
_ROLE = re.compile(r"[SUW][A-Z0-9]{1,30}\Z", re.ASCII)
_USER_ID = re.compile(r"[UW][A-Z0-9]{1,30}\Z", re.ASCII)
_MAX_REFERENCES = 20


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


class UnfitAnswer(SignoffError):
    """`problems` has a sentence for each field that does not fit."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__(" ".join(f"{name}: {each}" for name, each in self.problems.items()))


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """What a person answered. `own_words`: it has text that the person wrote."""

    canonical: bytes
    own_words: bool

    @property
    def value(self) -> Any:
        return from_json(self.canonical)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical value."""
        return hashlib.sha256(self.canonical).digest()


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


@dataclass(frozen=True)
class AnswerForm:
    """What people are asked to answer, and who may.

    `schema` is a JSON Schema: an `enum` of texts, or an object of at most ten fields. `other`: own words may be given
    in place of an option. So many equal answers are required.
    """

    schema: Mapping[str, Any]
    other: bool = False
    answers_required: int = 1
    answerers: tuple[str, ...] = EVERYBODY
    order: tuple[str, ...] = ()
    """Of the fields, which canonical JSON does not keep."""

    @classmethod
    def of(
        cls,
        schema: Mapping[str, Any],
        *,
        other: bool = True,
        answers_required: int = 1,
        answerers: Sequence[str] = EVERYBODY,
    ) -> AnswerForm:
        """Raises UnusableForm."""
        if not 1 <= answers_required <= MAX_ANSWERS:
            raise UnusableForm(f"`answers_required` is a number from 1 to {MAX_ANSWERS}")
        unknown = [each for each in answerers if each not in _NAMES and not _ROLE.match(each)]
        if unknown or not answerers:
            raise UnusableForm(
                f"`answerers` are `{REQUESTER}`, `{REVIEWERS}`, `{CHANNEL}` and the ids of Slack users and groups"
                + (f", and {unknown[0]!r} is none" if unknown else "")
            )
        properties = schema.get("properties")
        order = tuple(map(str, properties)) if isinstance(properties, Mapping) else ()
        form = cls(
            dict(schema),
            other and _is_choice(schema),
            answers_required,
            tuple(dict.fromkeys(answerers)),
            order,
        )
        try:
            form.canonical  # noqa: B018 - first: it refuses what is no JSON, and what could not be compared later
        except MalformedArguments as error:
            raise UnusableForm(f"the schema cannot be kept: {error}") from None
        needed = schema.get("required", [])
        if not isinstance(needed, list | tuple) or any(each not in order for each in needed):
            raise UnusableForm("`required` is a list of the form's fields")
        if not form.fields:
            raise UnusableForm("the form has no fields")
        if twice := next((each for each in form.fields if len(set(each.options)) != len(each.options)), None):
            raise UnusableForm(f"{twice.name}: an option stands twice")
        return form

    @classmethod
    def stored(cls, kept: Mapping[str, Any]) -> AnswerForm:
        schema, order = kept["schema"], tuple(kept["order"])
        return cls(schema, kept["other"], kept["answers_required"], tuple(kept["answerers"]), order)

    @property
    def stored_form(self) -> dict[str, Any]:
        return {
            "schema": dict(self.schema),
            "other": self.other,
            "answers_required": self.answers_required,
            "answerers": list(self.answerers),
            "order": list(self.order),
        }

    def with_texts(self, change: Callable[[str], str]) -> AnswerForm:
        """The form with its texts changed, to be shown and not to be read."""
        return replace(self, schema=_changed(self.schema, change))

    @cached_property
    def canonical(self) -> bytes:
        return canonical_bytes(self.stored_form)

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""
        return hashlib.sha256(self.canonical).hexdigest()

    def deciders(self, reviewers: Sequence[str], requester: Person | None) -> tuple[str, ...]:
        """Who may answer, as a request's `approvers`. Raises UnusableForm if that is nobody."""
        found: dict[str, None] = {}
        for each in self.answerers:
            if each == REVIEWERS:
                found.update(dict.fromkeys(reviewers))
            elif each != REQUESTER:
                found[each] = None
            elif requester is not None:
                found[requester.user_id] = None
        if not found:
            raise UnusableForm("only the requester may answer this, and Slack does not confirm who that is")
        return tuple(found)

    @property
    def is_choice(self) -> bool:
        """Whether one of some options is asked for, and no form."""
        return _is_choice(self.schema)

    @cached_property
    def fields(self) -> tuple[AnswerField, ...]:
        """Raises UnusableForm."""
        if self.is_choice:
            _check_rules(CHOICE, self.schema, {"enum", "type"})
            return (
                AnswerField(
                    CHOICE, "Choose one", FieldKind.ONE_OF, required=True, options=_options(self.schema)
                ),
            )
        declared = self.schema.get("properties")
        if self.schema.get("type") != "object" or not isinstance(declared, Mapping):
            raise UnusableForm("ask for an `enum` of texts, or for an object with `properties`")
        if len(declared) > MAX_FIELDS:
            raise UnusableForm(f"a form has at most {MAX_FIELDS} fields, and this one has {len(declared)}")
        _check_rules("the form", self.schema, _OF_OBJECTS)
        needed = self.schema.get("required", [])
        names = self.order if set(self.order) == set(declared) else tuple(declared)
        return tuple(_field(name, declared[name], self.schema, name in needed) for name in names)

    def read(self, value: Any) -> AnswerValue:
        """Raises UnfitAnswer, with a sentence for each field."""
        if self.is_choice:
            return self._read_choice(value)
        if not isinstance(value, Mapping):
            raise UnfitAnswer({"answer": "This must be an object with the form's fields."})
        unknown = [str(name) for name in value if name not in {each.name for each in self.fields}]
        problems, kept = dict.fromkeys(unknown, "The form has no such field."), {}
        for field in self.fields:
            if (given := value.get(field.name)) is None:
                if field.required:
                    problems[field.name] = "This must not be empty."
                continue
            try:
                kept[field.name] = field.read(given)
                canonical_bytes(kept[field.name])
            except MalformedArguments as error:
                problems[field.name] = _unkept(error)
            except ValueError as problem:
                problems[field.name] = str(problem)
        if problems:
            raise UnfitAnswer(problems)
        written = any(each.kind is FieldKind.TEXT and each.name in kept for each in self.fields)
        return _answer(kept, own_words=written)

    def _read_choice(self, value: Any) -> AnswerValue:
        field = self.fields[0]
        if value in field.options:
            return _answer(value, own_words=False)
        if not self.other:
            raise UnfitAnswer({CHOICE: _not_offered(field)})
        try:
            words = _text(AnswerField(CHOICE, "", FieldKind.TEXT, required=True), value)
        except ValueError as problem:
            raise UnfitAnswer({CHOICE: str(problem)}) from None
        return _answer(words, own_words=words not in field.options)


def _answer(value: Any, *, own_words: bool) -> AnswerValue:
    try:
        return AnswerValue(canonical_bytes(value), own_words)
    except MalformedArguments as error:
        raise UnfitAnswer({CHOICE: _unkept(error)}) from None


def _unkept(error: MalformedArguments) -> str:
    return f"This cannot be kept: {error}."


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _changed(each, change) for name, each in value.items()}
    return [_changed(each, change) for each in value] if isinstance(value, list | tuple) else value


def _is_choice(schema: Mapping[str, Any]) -> bool:
    return "enum" in schema and schema.get("type", "string") == "string"


def _options(schema: Mapping[str, Any], where: str = "the answer") -> tuple[str, ...]:
    offered = schema.get("enum")
    texts = [each for each in offered if isinstance(each, str)] if isinstance(offered, list) else []
    if not texts or not isinstance(offered, list) or len(texts) != len(offered):
        raise UnusableForm(f"{where}: options are a list of texts")
    if len(texts) > MAX_OPTIONS:
        raise UnusableForm(f"{where}: at most {MAX_OPTIONS} options, and there are {len(texts)}")
    if any(says_nothing(each) or len(each) > MAX_TEXT or each != each.strip() for each in texts):
        raise UnusableForm(f"{where}: an option is a visible text without blanks at its ends")
    return tuple(texts)


def _field(name: str, rules: Any, schema: Mapping[str, Any], required: bool) -> AnswerField:
    rules = _resolved(rules, schema, name)
    if says_nothing(name):
        raise UnusableForm("a field needs a name")
    kind, options = _kind(name, rules)
    _check_rules(name, rules, _CHECKED[kind])
    least, most = _bounds(kind, rules)
    if kind is FieldKind.SEVERAL_OF:
        most = Decimal(len(options)) if most is None else min(most, Decimal(len(options)))
    if least is not None and most is not None and least > most:
        raise UnusableForm(f"{name}: nothing is both at least {least} and at most {most}")
    field = AnswerField(
        name=name,
        label=str(rules.get("title") or name),
        kind=kind,
        required=required,
        hint=str(rules.get("description") or ""),
        options=options,
        least=least,
        most=most,
        pattern=rules.get("pattern") if kind is FieldKind.TEXT else None,
    )
    if field.pattern is not None:
        try:
            _pattern(field.pattern)
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
        case "integer", _:
            return FieldKind.INTEGER, ()
        case "number", _:
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
    found: Any = schema if reference.startswith("#/") else None
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _bounds(kind: FieldKind, rules: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    match kind:
        case FieldKind.TEXT:
            least, most = _number(rules.get("minLength")), _number(rules.get("maxLength"))
            # An empty text is no answer.
            longest = Decimal(MAX_TEXT)
            return max(least or Decimal(1), Decimal(1)), longest if most is None else min(most, longest)
        case FieldKind.SEVERAL_OF:
            return _number(rules.get("minItems")), _number(rules.get("maxItems"))
        case FieldKind.INTEGER | FieldKind.NUMBER:
            least, most = _number(rules.get("minimum")), _number(rules.get("maximum"))
            if kind is FieldKind.INTEGER:
                above, below = _number(rules.get("exclusiveMinimum")), _number(rules.get("exclusiveMaximum"))
                lower = (least and math.ceil(least), None if above is None else math.floor(above) + 1)
                upper = (most and math.floor(most), None if below is None else math.ceil(below) - 1)
                least = max((Decimal(each) for each in lower if each is not None), default=None)
                most = min((Decimal(each) for each in upper if each is not None), default=None)
            elif "exclusiveMinimum" in rules or "exclusiveMaximum" in rules:
                raise UnusableForm("a number's bounds are `minimum` and `maximum`, which it may reach")
            return least, most
        case _:
            return None, None


def _number(value: Any) -> Decimal | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else Decimal(str(value))


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
            _pattern(field.pattern).validate_python(text)
        except ValidationError:
            raise ValueError(f"This does not fit the pattern {field.pattern}.") from None
    return text


def _pattern(pattern: str) -> TypeAdapter[str]:
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
    few = f": {', '.join(field.options)}" if len(field.options) <= MAX_FIELDS else ""
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
    if not isinstance(value, str) or not _USER_ID.match(value):
        raise ValueError("This must be a person of this workspace.")
    return value


def _yes_no(_: AnswerField, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("This must be yes or no.")  # noqa: TRY004
    return value


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
"""The rules of JSON Schema that `read` holds a field to."""
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
