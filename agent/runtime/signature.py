"""A function's parameters as a JSON schema, and the model's JSON as values.

Values are taken as they are or refused, never converted (`"7"` is not an integer), also inside nested models. A
parameter without a JSON schema is refused when the tool is defined.
"""

import hashlib
import inspect
import re
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments

CONTEXT = "ctx"
"""The model never sees this parameter."""

_PREFIX = "argument_"  # avoids pydantic's attributes (`json`, `copy`, `model_…`)
_SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """`schema` goes to the model; `complete` and `values` read its arguments."""

    names: tuple[str, ...]
    schema: Mapping[str, Any]
    digest: bytes
    """Without descriptions."""
    _model: type[BaseModel]

    def complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Add all defaults, so that people approve what the function gets. Raises MalformedArguments."""
        given = self._read(arguments)
        try:
            dumped = given.model_dump(mode="json", by_alias=True, warnings=False)
            filled: dict[str, Any] = _filled(arguments, dumped)
            if self._read(filled) == given:
                return filled
        except (PydanticSerializationError, MalformedArguments):
            pass  # not written back as read: its defaults stay out
        return dict(arguments)

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises MalformedArguments, with the path."""
        read = self._read(arguments)
        return {name: getattr(read, _PREFIX + name) for name in self.names}

    def _read(self, arguments: Mapping[str, Any]) -> BaseModel:
        try:
            return self._model.model_validate_json(canonical_bytes(arguments), strict=True, extra="forbid")
        except ValidationError as error:
            raise _malformed(error) from None


def signature_of(function: Callable[..., Any], title: str, descriptions: Mapping[str, str]) -> Signature:
    """Raises TypeError that names the unusable parameter, and why."""
    parameters = _parameters(function, title)
    hints = _hints(function, title)
    fields: dict[str, Any] = {}
    for parameter in parameters:
        annotation = _annotation(parameter, hints, title)
        options: dict[str, Any] = {"alias": parameter.name}
        if description := descriptions.get(parameter.name):
            options["description"] = description
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[_PREFIX + parameter.name] = (annotation, Field(default, **options))
    config = ConfigDict(strict=True, extra="forbid")
    model: type[BaseModel] = create_model(title, __config__=config, **fields)
    schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    schema.pop("title", None)
    schema.setdefault("properties", {})
    names = tuple(parameter.name for parameter in parameters)
    if tuple(schema["properties"]) != names:
        raise TypeError(f"{title}: an alias renames a parameter; the model must see the parameter's own name")
    digest = hashlib.sha256(canonical_bytes(_without_words(schema))).digest()
    return Signature(names, schema, digest, model)


def check_subset(function: Callable[..., Any], title: str, allowed: tuple[str, ...]) -> None:
    """Raises TypeError for a parameter that cannot be given."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{title}: parameter {parameter} must be a plain named parameter")
        if parameter.name not in allowed:
            known = ", ".join(allowed) or "none"
            raise TypeError(f'{title}: there is no argument "{parameter.name}" to pass it (known: {known})')


class _Schema(GenerateJsonSchema):
    """Omits titles that repeat names, and closes every object."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        return {"additionalProperties": False, **super().model_schema(schema)}


def _parameters(function: Callable[..., Any], title: str) -> list[inspect.Parameter]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{title}: parameter {parameter} must be a plain named parameter")
        if isinstance(parameter.default, FieldInfo):
            raise TypeError(
                f'{title}: write parameter "{parameter.name}" as Annotated[type, Field(…)] = default'
            )
        if parameter.name != CONTEXT:
            found.append(parameter)
    return found


def _hints(function: Callable[..., Any], title: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise TypeError(f"{title}: an annotation cannot be resolved: {error}") from None


def _annotation(parameter: inspect.Parameter, hints: Mapping[str, Any], title: str) -> Any:
    where = f'{title}: parameter "{parameter.name}"'
    if parameter.name not in hints:
        raise TypeError(f"{where} has no type annotation, so the model cannot know what to send")
    annotation = hints[parameter.name]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.json_schema()
    except (PydanticUserError, TypeError) as error:
        shown = getattr(annotation, "__name__", None) or str(annotation)
        raise TypeError(f"{where} has the type {shown}, which has no JSON schema") from error
    if parameter.default is not parameter.empty:
        _check_default(adapter, parameter.default, where)
    return annotation


def _check_default(adapter: TypeAdapter[Any], default: Any, where: str) -> None:
    try:
        adapter.validate_python(default, strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            canonical_bytes(adapter.dump_python(default, mode="json"))
    except (ValidationError, PydanticSerializationError, MalformedArguments, UserWarning):
        raise TypeError(f"{where} has the default {default!r}, which does not fit its type as JSON") from None


def _without_words(schema: Any) -> Any:
    match schema:
        case Mapping():
            kept = {key: part for key, part in schema.items() if key not in _WORDS}
            return {key: _below(key, part) for key, part in kept.items()}
        case list():
            return [_without_words(part) for part in schema]
        case _:
            return schema


def _below(keyword: str, part: Any) -> Any:
    if keyword in ("properties", "$defs"):  # the keys are names
        return {name: _without_words(schema) for name, schema in part.items()}
    return part if keyword in ("default", "const", "enum") else _without_words(part)


_WORDS = frozenset({"title", "description", "examples"})


def _filled(given: Any, dumped: Any) -> Any:
    if isinstance(given, Mapping) and isinstance(dumped, Mapping):
        known = {key: _filled(value, dumped.get(key)) for key, value in given.items()}
        return known | {key: value for key, value in dumped.items() if key not in given}
    if isinstance(given, list) and isinstance(dumped, list) and len(given) == len(dumped):
        return [_filled(*pair) for pair in zip(given, dumped, strict=True)]
    return given


def _malformed(error: ValidationError) -> MalformedArguments:
    problems = [(_path(item["loc"]), item["msg"]) for item in error.errors(include_url=False)]
    (path, problem), *others = problems
    rest = [f"{where}: {what}" for where, what in others[: _SHOWN_PROBLEMS - 1]]
    if (unshown := len(others) - len(rest)) > 0:
        rest.append(f"and {unshown} more")
    return MalformedArguments(path, "; ".join([problem, *rest]))


def _path(steps: tuple[int | str, ...]) -> str:
    plain = re.compile(r"[A-Za-z_]\w*\Z")
    return "$" + "".join(
        f".{step}" if isinstance(step, str) and plain.match(step) else f"[{step!r}]" for step in steps
    )
