"""The form in which people answer a question that wants more than yes or no, and what they answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unicodedata import normalize

from pydantic_core import from_json

from agent.domain.answer_fields import MAX_TEXT, USER_ID, AnswerField, FieldKind
from agent.domain.answer_schemas import CHOICE, NO_FORM, fields_of, is_choice, with_texts
from agent.domain.people import CHANNEL
from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments, SignoffError, UnusableForm
from signoff.values import Person
from signoff.visible_text import says_nothing

MAX_ANSWERS = 20
"""Equal answers that a question may require."""

REQUESTER = "requester"
"""The requester, among `answerers`."""
REVIEWERS = "reviewers"
"""The checkpoint's reviewers, among `answerers`."""
EVERYBODY = (REQUESTER, REVIEWERS)

_NAMES = (REQUESTER, REVIEWERS, CHANNEL)
_ROLE = re.compile(r"[SUW][A-Z0-9]{1,30}\Z", re.ASCII)
_OWN_WORDS = AnswerField(CHOICE, "", FieldKind.TEXT, required=True)
"""In place of an option."""


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
        """Raises UnusableForm, whatever the schema is."""
        if not isinstance(schema, Mapping):
            raise UnusableForm(NO_FORM)
        if type(answers_required) is not int or not 1 <= answers_required <= MAX_ANSWERS:
            raise UnusableForm(f"`answers_required` is a number from 1 to {MAX_ANSWERS}")
        unknown = [each for each in answerers if each not in _NAMES and not _ROLE.match(str(each))]
        if unknown or not answerers:
            raise UnusableForm(
                f"`answerers` are `{REQUESTER}`, `{REVIEWERS}`, `{CHANNEL}` and the ids of Slack users and groups"
                + (f", and {unknown[0]!r} is none" if unknown else "")
            )
        properties = schema.get("properties")
        order = tuple(map(str, properties)) if isinstance(properties, Mapping) else ()
        other = other and is_choice(schema)
        form = cls(dict(schema), other, answers_required, tuple(dict.fromkeys(answerers)), order)
        try:
            form.canonical  # noqa: B018 - first: it refuses what is no JSON, and what could not be compared later
        except MalformedArguments as error:
            raise UnusableForm(f"the schema cannot be kept: {error}") from None
        if not form.fields:
            raise UnusableForm("the form has no fields")
        for field in form.fields:
            _check_options(field)
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
        return replace(self, schema=with_texts(self.schema, change))

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
        if self._names_people and len(found) < self.answers_required:
            raise UnusableForm(
                f"{self.answers_required} equal answers are required, and {len(found)} may answer"
            )
        return tuple(found)

    @property
    def _names_people(self) -> bool:
        """Whether those who may answer are named one by one. The reviewers may become more, at a deadline."""
        return all(each == REQUESTER or USER_ID.match(each) for each in self.answerers)

    @property
    def is_choice(self) -> bool:
        """Whether one of some options is asked for, and no form."""
        return is_choice(self.schema)

    @cached_property
    def fields(self) -> tuple[AnswerField, ...]:
        """Raises UnusableForm."""
        return fields_of(self.schema, self.order)

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
        try:
            said = (_OWN_WORDS if self.other else field).read(value)
        except ValueError as problem:
            raise UnfitAnswer({CHOICE: str(problem)}) from None
        return _answer(said, own_words=said not in field.options)


def in_order(value: Any, order: Sequence[str]) -> Any:
    """Return an answer with its fields in this order, which canonical JSON does not keep."""
    if not isinstance(value, Mapping):
        return value
    return {name: value[name] for name in order if name in value} | dict(value)


def _check_options(field: AnswerField) -> None:
    """Raises UnusableForm for what a person could not choose. Masked options may be alike, and are not chosen from."""
    if any(says_nothing(each) or each != each.strip() for each in field.options):
        raise UnusableForm(f"{field.name}: an option is a visible text without blanks at its ends")
    if any(len(each) > MAX_TEXT for each in field.options):
        raise UnusableForm(f"{field.name}: an option has at most {MAX_TEXT:,} characters")
    if len({normalize("NFC", each) for each in field.options}) != len(field.options):  # drawn alike
        raise UnusableForm(f"{field.name}: an option stands twice")


def _answer(value: Any, *, own_words: bool) -> AnswerValue:
    try:
        return AnswerValue(canonical_bytes(value), own_words)
    except MalformedArguments as error:
        raise UnfitAnswer({CHOICE: _unkept(error)}) from None


def _unkept(error: MalformedArguments) -> str:
    return f"This cannot be kept: {error}."
