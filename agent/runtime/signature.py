"""A function's parameters as a JSON schema, and the model's JSON as values.

Values of another type are refused, never converted (`"7"` is not an integer), also inside nested models. What a type
itself makes of a value (lower case, a default) is done before anybody judges it. A parameter without a JSON schema, or
whose JSON cannot be judged, is refused when the tool is defined.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any
from uuid import UUID

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
from signoff.json_form import (
    difference,
    dumps_of_model,
    guarded,
    judged_values,
    malformed,
    stable_form,
    unstable_type,
    written,
)
from signoff.values import Person

_PREFIX = "argument_"  # avoids pydantic's attributes (`json`, `copy`, `model_…`)


class _NotOfThisCall(TypeError):
    pass


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool and its hooks may know about the call: annotate one parameter, of any name, `ToolContext`.

    The model never sees that parameter. `idempotency_key` is the same for every attempt at this call, and for no other
    call.
    """

    run_id: UUID
    call_id: UUID
    idempotency_key: str
    requester: Person | None
    agent: str

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> Any:
        # Inside another type, its fields would be the model's to invent.
        raise _NotOfThisCall(
            "has a ToolContext inside its type; annotate a parameter of its own: ctx: ToolContext"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """`schema` goes to the model; `complete` and `values` read its arguments. `context`: the parameter for it."""

    names: tuple[str, ...]
    context: str | None
    schema: Mapping[str, Any]
    digest: bytes
    """Without descriptions."""
    _model: type[BaseModel]

    def complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON form of what the function gets, with all defaults. Raises MalformedArguments, with the path."""
        return stable_form(self._read, dumps_of_model, arguments, self._values)

    def is_still_complete(self, completed: Mapping[str, Any]) -> bool:
        """Whether `complete`, which once returned these arguments, would return them today."""
        try:
            self.judged_values(completed)
        except MalformedArguments:
            return False
        return True

    def judged_values(self, completed: Mapping[str, Any]) -> dict[str, Any]:
        """What the function gets. Raises MalformedArguments, with the path, also if that is not what was judged."""
        return self._values(judged_values(self._read, dumps_of_model, completed))

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """For lookups and hooks. Raises MalformedArguments, with the path."""
        return self._values(guarded(self._read, arguments))

    def _values(self, read: BaseModel) -> dict[str, Any]:
        return {name: getattr(read, _PREFIX + name) for name in self.names}

    def _read(self, arguments: Mapping[str, Any]) -> BaseModel:
        try:
            return self._model.model_validate_json(canonical_bytes(arguments), strict=True, extra="forbid")
        except ValidationError as error:
            raise malformed(error) from None


def signature_of(function: Callable[..., Any], title: str, descriptions: Mapping[str, str]) -> Signature:
    """Raises TypeError that names the unusable parameter, and why."""
    parameters = _parameters(function, title)
    hints = _hints(function, title)
    context = _context(parameters, hints, title)
    parameters = [each for each in parameters if each.name != context]
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
    return Signature(names, context, schema, digest, model)


def check_subset(
    function: Callable[..., Any], title: str, allowed: tuple[str, ...], *, context: bool
) -> None:
    """Raises TypeError for a parameter that cannot be given. ``context``: it may take a `ToolContext`."""
    parameters = _parameters(function, title)
    taken = _context(parameters, _known_hints(function, parameters), title)
    if taken is not None and not context:
        raise TypeError(
            f'{title}: there is no ToolContext to pass as "{taken}"; it takes arguments of the tool'
        )
    for parameter in parameters:
        if parameter.name not in (*allowed, taken):
            known = ", ".join(allowed) or "none"
            raise TypeError(f'{title}: there is no argument "{parameter.name}" to pass it (known: {known})')


def context_parameter(function: Callable[..., Any], title: str = "function") -> str | None:
    """The parameter that takes the `ToolContext`. Raises TypeError."""
    parameters = _parameters(function, title)
    return _context(parameters, _known_hints(function, parameters), title)


class _Schema(GenerateJsonSchema):
    """Omits titles that repeat names, and closes every object."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
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
        found.append(parameter)
    return found


def _context(parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any], title: str) -> str | None:
    """By its type; a parameter `ctx` that says nothing about it is meant, too."""
    found = []
    for parameter in parameters:
        hint = hints.get(parameter.name, object)
        unsaid = parameter.name == "ctx" and hint in (object, Any)
        kinds = _kinds(ToolContext if unsaid else hint)
        if not any(map(_is_context, kinds)):
            continue
        if not all(_is_context(kind) or kind is NoneType for kind in kinds):
            raise TypeError(
                f'{title}: parameter "{parameter.name}" is a ToolContext or something else; it must be one'
            )
        found.append(parameter.name)
    if len(found) > 1:
        raise TypeError(f"{title}: {' and '.join(found)} each take the ToolContext; only one parameter can")
    return found[0] if found else None


def _kinds(hint: Any) -> list[Any]:
    """What a value may be, without annotations, aliases and names for types."""
    if typing.get_origin(hint) is Annotated:
        return _kinds(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, UnionType):
        return [kind for each in typing.get_args(hint) for kind in _kinds(each)]
    for name in ("__supertype__", "__value__", "__bound__"):  # NewType, type X = …, TypeVar
        if not isinstance(hint, type) and getattr(hint, name, None) is not None:
            return _kinds(getattr(hint, name))
    return [typing.get_origin(hint) or hint]


def _is_context(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ToolContext)


def _hints(function: Callable[..., Any], title: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise TypeError(f"{title}: an annotation cannot be resolved: {error}") from None


def _known_hints(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """Of a function that needs no types: what cannot be resolved is missing."""
    while isinstance(function, partial):
        function = function.func
    inner = inspect.unwrap(function)
    names = getattr(inner, "__globals__", getattr(type(inner).__call__, "__globals__", {}))
    found: dict[str, Any] = {}
    for each in parameters:
        if each.annotation is not each.empty:
            with contextlib.suppress(Exception):
                alone = SimpleNamespace(__annotations__={each.name: each.annotation})
                found |= typing.get_type_hints(alone, names, include_extras=True)
            found.setdefault(each.name, object)
    return found


def _annotation(parameter: inspect.Parameter, hints: Mapping[str, Any], title: str) -> Any:
    where = f'{title}: parameter "{parameter.name}"'
    if parameter.name not in hints and parameter.name in ("self", "cls"):
        raise TypeError(
            f"{title}: it is a method, and nothing would pass {parameter.name}; "
            f"write tool(owner.{title.rpartition(' ')[2]}), with the object that has it"
        )
    if parameter.name not in hints:
        raise TypeError(f"{where} has no type annotation, so the model cannot know what to send")
    annotation = hints[parameter.name]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.json_schema()
    except _NotOfThisCall as error:
        raise TypeError(f"{where} {error}") from None
    except (PydanticUserError, TypeError) as error:
        shown = getattr(annotation, "__name__", None) or str(annotation)
        raise TypeError(f"{where} has the type {shown}, which has no JSON schema") from error
    if (problem := unstable_type(adapter.core_schema)) is not None:
        raise TypeError(f"{where} is or contains {problem}")
    if parameter.default is not parameter.empty:
        _check_default(adapter, parameter.default, where)
    return annotation


def _check_default(adapter: TypeAdapter[Any], default: Any, where: str) -> None:
    try:
        adapter.validate_python(default, strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            form = _default_form(adapter, default)
    except (ValidationError, PydanticSerializationError, MalformedArguments, UserWarning):
        raise TypeError(f"{where} has the default {default!r}, which does not fit its type as JSON") from None
    try:
        read = adapter.validate_json(canonical_bytes(form), strict=True, extra="forbid")
        changed = difference(form, _default_form(adapter, read))
    except Exception:  # a type's own validator may raise anything
        changed = "$"
    if changed is not None:
        raise TypeError(f"{where} has the default {default!r}, which its own type reads as another value")


def _default_form(adapter: TypeAdapter[Any], value: Any) -> Any:
    dump = partial(adapter.dump_python, value, by_alias=True, round_trip=True)
    form = written(dump(mode="python"), dump(mode="json"), numbers=False)
    canonical_bytes(form)
    return form


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


_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def summary(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a function's docstring as one line, or an empty text without one."""
    paragraph = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of a function's parameters, by name, from its docstring's `Args:` section."""
    found: dict[str, str] = {}
    inside, indent, current = False, 0, ""
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if depth == 0:
            section = _SECTION.match(line)
            inside, current, indent = (
                bool(section and section[1] in ("Args", "Arguments", "Parameters")),
                "",
                0,
            )
            continue
        if not inside:
            continue
        indent = indent or depth
        if depth == indent and (named := _ARGUMENT.match(line.strip())):
            current = named[1]
            found[current] = named[2]
        elif current:
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found
