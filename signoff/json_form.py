"""The JSON form of typed arguments: what is judged, shown and stored is what the function gets.

A type may convert what it reads (lower case, cents, a default). So arguments are read, written as JSON, and read again:
only a form that is then written the same can be judged. It needs pydantic, which the client does not bring along.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, wraps
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Secret, SecretBytes, SecretStr, ValidationError, validate_call
from pydantic_core import SchemaSerializer, core_schema

from signoff.canonical import MAX_INTEGER, canonical_bytes, parse_checked
from signoff.errors import MalformedArguments

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

UNSTABLE = "changes each time it is read, so nobody can be asked about it"
UNWRITABLE = "cannot be written as JSON"
CHANGED = "would become another value when the tool reads it, so it cannot run as it was decided"

_SHOWN_PROBLEMS = 5


def stable_form(
    read: Callable[[Mapping[str, Any]], T],
    write: Callable[[T], tuple[Any, Any]],
    arguments: Mapping[str, Any],
    values: Callable[[T], Mapping[str, Any]],
) -> dict[str, Any]:
    """The arguments as JSON, with defaults and conversions, so that reading and writing them changes nothing.

    ``write`` returns what `written` takes; ``values`` the values by parameter. Raises MalformedArguments with the path.
    """
    given = guarded(read, arguments)
    failure = MalformedArguments("$", UNSTABLE)
    for numbers in (True, False):  # a validator may take a decimal as text only
        form = _form(write, given, numbers=numbers)
        judged: dict[str, Any] = parse_checked(form)
        try:
            again = guarded(read, judged)
            path = _changed(form, _form(write, again, numbers=numbers)) or _lost(values(given), values(again))
        except MalformedArguments as error:
            problem = f"is not read back as it is written, so nobody can be asked about it: {error.problem}"
            failure = MalformedArguments(error.path, problem)
        else:
            if path is None:
                return judged
            failure = MalformedArguments(path, UNSTABLE)
    raise failure


def judged_values(
    read: Callable[[Mapping[str, Any]], T], write: Callable[[T], tuple[Any, Any]], judged: Mapping[str, Any]
) -> T:
    """What reading the judged JSON gives. Raises MalformedArguments, with the path, if that is not what was judged."""
    value = guarded(read, judged)
    try:
        check_written(judged, write(value))
    except MalformedArguments:
        raise
    except Exception as error:
        raise MalformedArguments("$", f"{UNWRITABLE}: {error}") from None
    return value


def check_written(judged: Mapping[str, Any], *dumps: tuple[Any, Any]) -> None:
    """Raises MalformedArguments, with the path, if no dump of the values is what was judged."""
    first: str | None = None
    for dump in dumps:
        for numbers in (True, False):
            if (path := difference(dict(judged), written(*dump, numbers=numbers))) is None:
                return
            first = first or path
    raise MalformedArguments(first or "$", CHANGED)


def guarded(read: Callable[[Mapping[str, Any]], T], arguments: Mapping[str, Any]) -> T:
    """A type's own validator may raise anything."""
    try:
        return read(arguments)
    except MalformedArguments:
        raise
    except ValidationError as error:
        raise malformed(error) from None
    except Exception as error:
        raise MalformedArguments("$", f"cannot be read: {type(error).__name__}: {error}") from None


def written(python: Any, plain: Any, *, numbers: bool = True) -> Any:
    """JSON of both dumps of a value: sets are sorted, and decimals are numbers where a double holds them exactly."""
    if type(plain) is type(python) in _AS_THEY_ARE:
        return plain
    match python:
        case SecretStr() | SecretBytes() | Secret():
            raise ValueError("a secret is hidden in its JSON")
        case Decimal() if numbers and isinstance(plain, str):
            return _number(python, plain)
        case set() | frozenset() if isinstance(plain, list):
            decimals = {str(each): each for each in python if isinstance(each, Decimal)}
            members = [
                written(decimals.get(each) if isinstance(each, str) else None, each, numbers=numbers)
                for each in plain
            ]
            return sorted(members, key=_order)
        case Mapping() if isinstance(plain, Mapping) and len(python) == len(plain):
            pairs = zip(
                python.values(), plain.items(), strict=True
            )  # the same order; keys may be written otherwise
            return {key: written(value, part, numbers=numbers) for value, (key, part) in pairs}
        case list() | tuple() if isinstance(plain, list | tuple) and len(python) == len(plain):
            return [written(*pair, numbers=numbers) for pair in zip(python, plain, strict=True)]
        case _:
            return plain


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def written_by_type(value: Any) -> tuple[Any, Any]:
    """Both dumps of a value whose annotation is unknown."""
    return (
        _ANY.to_python(value, mode="python", by_alias=True, round_trip=True, warnings=False),
        _ANY.to_python(value, mode="json", by_alias=True, round_trip=True, warnings=False),
    )


_ANY = SchemaSerializer(core_schema.any_schema())


def dumps_of_model(read: BaseModel) -> tuple[Any, Any]:
    """Return both dumps of a pydantic model, by alias: as Python values, and as JSON values."""
    dump = partial(read.model_dump, by_alias=True, round_trip=True, warnings=False)
    return dump(mode="python"), dump(mode="json")


def difference(one: Any, other: Any, path: tuple[int | str, ...] = ()) -> str | None:
    """The path of the first part in which two JSON values differ; None if none does."""
    if canonical_bytes(one) == canonical_bytes(other):
        return None
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            if key not in one or key not in other:
                return shown_path((*path, key))
            if (found := difference(one[key], other[key], (*path, key))) is not None:
                return found
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            if (found := difference(*pair, (*path, index))) is not None:
                return found
    return shown_path(path)


def instance_of(model: type[M], answer: Any) -> M:
    """What people answered, as the model that asked for it: its own validators may refuse what its schema allows.

    Raises MalformedArguments, without the values, which may be secrets.
    """
    try:
        return model.model_validate_json(canonical_bytes(answer))
    except ValidationError as error:
        raise malformed(error) from None


def malformed(error: ValidationError) -> MalformedArguments:
    """With all problems, and the path of the first."""
    problems = [(shown_path(item["loc"]), phrase(item)) for item in error.errors(include_url=False)]
    (path, problem), *others = problems
    rest = [str(MalformedArguments(*other)) for other in others[: _SHOWN_PROBLEMS - 1]]
    if (unshown := len(others) - len(rest)) > 0:
        rest.append(f"and {unshown} more")
    return MalformedArguments(path, "; ".join([problem, *rest]))


def phrase(item: Mapping[str, Any]) -> str:
    """What is wrong, without pydantic's own beginning."""
    return re.sub(r"\A(?:Value error|Assertion failed), ", "", str(item["msg"]))


def shown_path(steps: tuple[int | str, ...]) -> str:
    """Write the path of an argument for people: `$.items[2]`, and unusual names quoted in brackets."""
    return "$" + "".join(
        f".{step}" if isinstance(step, str) and _PLAIN.match(step) else f"[{step!r}]" for step in steps
    )


_PLAIN = re.compile(r"[A-Za-z_]\w*\Z")


def reader_of(
    function: Callable[..., Any], *, config: ConfigDict | None = None, only: Collection[str] | None = None
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Reads arguments as the function does, without calling it: defaults, and its types if `validate_call` wraps it.

    ``only`` names the parameters that are arguments; a framework passes the others.
    """
    plain = inspect.unwrap(function)
    parameters = inspect.signature(plain).parameters.values()
    signature = inspect.Signature(
        [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD) if each.kind is each.POSITIONAL_ONLY else each
            for each in parameters
            if only is None or each.name in only
        ]
    )

    @wraps(plain)
    def capture(*args: Any, **kwargs: Any) -> Mapping[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        read = dict(bound.arguments)
        for each in signature.parameters.values():
            if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
                read |= read.pop(each.name) or {}
        return read

    capture.__signature__ = signature  # type: ignore[attr-defined]
    read = validate_call(config=config)(capture) if hasattr(function, "raw_function") else capture
    return lambda arguments: read(**arguments)


def form_as_read(
    read: Callable[[Mapping[str, Any]], Mapping[str, Any]], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """`stable_form` of values whose annotations are unknown. Raises MalformedArguments."""
    return stable_form(read, written_by_type, arguments, lambda values: values)


def filled(given: Any, form: Any) -> Any:
    """What was given, with what the form adds."""
    if isinstance(given, Mapping) and isinstance(form, Mapping):
        known = {key: filled(value, form.get(key)) for key, value in given.items()}
        return known | {key: value for key, value in form.items() if key not in given}
    if isinstance(given, list) and isinstance(form, list) and len(given) == len(form):
        return [filled(*pair) for pair in zip(given, form, strict=True)]
    return given


def unstable_type(schema: Any) -> str | None:
    """What in a type's core schema has no JSON form that can be judged, and what to use instead."""
    return _unstable(schema, _Config())


# --- parts ------------------------------------------------------------------------------------------------


def _form(write: Callable[[T], tuple[Any, Any]], value: T, *, numbers: bool) -> bytes:
    try:
        form = written(*write(value), numbers=numbers)
    except Exception as error:
        raise MalformedArguments("$", f"{UNWRITABLE}: {error}") from None
    return canonical_bytes(form)


def _changed(before: bytes, after: bytes) -> str | None:
    return None if before == after else difference(parse_checked(before), parse_checked(after))


def _lost(given: Mapping[str, Any], again: Mapping[str, Any]) -> str | None:
    """A value that its JSON does not carry, such as a masked one."""
    for name, value in given.items():
        other = again.get(name)
        if not (value == other or (type(value) is type(other) and _is_compared_by_identity(value))):
            return shown_path((name,))
    return None


def _is_compared_by_identity(value: object) -> bool:
    return getattr(type(value), "__eq__", None) is getattr(object, "__eq__", None)


def _number(exact: Decimal, plain: str) -> int | float | str:
    if not exact.is_finite():
        return plain
    is_whole = abs(exact) <= MAX_INTEGER and exact == exact.to_integral_value()
    number = int(exact) if is_whole else float(exact)
    return number if Decimal(repr(number)) == exact else plain


def _order(member: Any) -> tuple[bool, float, bytes]:
    is_number = isinstance(member, int | float) and not isinstance(member, bool)
    return not is_number, member if is_number else 0.0, canonical_bytes(member)


_OWN_FORM = ("function-plain", "function-wrap", "to-string", "format")
_UNREAD = (
    "metadata",
    "config",
    "serialization",
    "lax_schema",
    "python_schema",
    "default",
    "expected",
    "members",
    "cls",
)

_NO_FORM = {
    "is-instance": "an arbitrary type, which has no JSON form: use a pydantic model or a dataclass",
    "is-subclass": "a class, which has no JSON form: use its name",
    "callable": "a function, which has no JSON form: use its name",
    "generator": "an iterator, which is read only while the function runs: use list",
}
_SECRET = "a secret, which its JSON hides from reviewers: use str, and name the argument in `redact`"  # noqa: S105
_BYTES = "bytes, which have more than one JSON form: use str, or Base64Bytes of pydantic"
_EXCLUDED = "a field that its JSON leaves out (exclude), so reviewers would not see it: include it"
_NOT_CARRIED = (
    "a field that its JSON does not carry (InitVar or init=False): make it an ordinary field or a property"
)
_RENAMED = "a field that is read under one name and written under another: give it one `alias`"


@dataclass(frozen=True)
class _Config:
    """What nested types take from their model."""

    text_bytes: bool = True
    by_name: bool = False

    def within(self, config: Any) -> _Config:
        if not isinstance(config, Mapping):
            return self
        forms = {config.get("ser_json_bytes"), config.get("val_json_bytes")}
        by_name = config.get("validate_by_name") or config.get("populate_by_name")
        return _Config(len(forms) > 1 or not forms & {"base64", "hex"}, bool(by_name))


def _unstable(schema: Any, config: _Config) -> str | None:
    if isinstance(schema, list | tuple):
        return next((found for each in schema if (found := _unstable(each, config))), None)
    if not isinstance(schema, Mapping):
        return None
    own = schema.get("serialization")
    if isinstance(own, Mapping) and own.get("type") in _OWN_FORM:
        return _SECRET if "secret" in getattr(own.get("function"), "__name__", "") else None
    config = config.within(schema.get("config"))
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _NO_FORM:
        return _NO_FORM[kind]
    if kind == "bytes" and config.text_bytes:
        return _BYTES
    if kind in ("model-fields", "typed-dict", "dataclass-args"):
        fields = schema["fields"]
        named = fields.items() if isinstance(fields, Mapping) else [(each["name"], each) for each in fields]
        if found := next(
            (found for name, each in named if (found := _unstable_field(name, each, config))), None
        ):
            return found
    below = (part for name, part in schema.items() if name not in _UNREAD)
    return next((found for part in below if (found := _unstable(part, config))), None)


def _unstable_field(name: str, field: Mapping[str, Any], config: _Config) -> str | None:
    if field.get("serialization_exclude") or field.get("serialization_exclude_if"):
        return _EXCLUDED
    if field.get("init_only") or field.get("init") is False:
        return _NOT_CARRIED
    read = field.get("validation_alias", name)
    paths = (
        [[read]] if isinstance(read, str) else [each if isinstance(each, list) else [each] for each in read]
    )
    if isinstance(read, list) and not any(isinstance(each, list) for each in read):
        paths = [read]
    accepted = [path[0] for path in paths if len(path) == 1] + ([name] if config.by_name else [])
    return None if field.get("serialization_alias", name) in accepted else _RENAMED
