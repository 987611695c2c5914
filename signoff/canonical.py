"""Canonical JSON (RFC 8785) and strict parsing of untrusted JSON.

RFC 8785 has one kind of number, the IEEE 754 double: `1.0` and `1` are the same argument. Parsing returns an int for
whole numbers up to 2**53 - 1 and a float for all others.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Never

import rfc8785

from signoff.errors import MalformedArguments
from signoff.storable_text import unstorable

MAX_DEPTH = 64
"""Levels of nesting."""

MAX_BYTES = 256 * 1024
"""Limit for arguments, as text and in canonical form."""

MAX_INTEGER = 2**53 - 1
"""Above this, a double cannot tell neighbouring integers apart (RFC 8785 section 3.2.2.3, RFC 7493)."""

_ENVELOPE = 4096
"""Room for tool and version."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def canonical_bytes(value: Any) -> bytes:
    """Encode a JSON value by RFC 8785.

    Raises MalformedArguments, with the path, for NaN and Infinity, integers beyond 2**53 - 1, NUL and lone surrogates,
    non-string keys, other types, more than MAX_DEPTH levels or MAX_BYTES bytes.
    """
    encoded = _encode(value).encode() if _is_simple(value, 1) else _encoded(_plain(value, None, 1))
    if len(encoded) > MAX_BYTES:
        raise MalformedArguments("$", f"is larger than {MAX_BYTES // 1024} KiB")
    return encoded


def plain_json(value: Any) -> Any:
    """Copy as plain JSON types. Raises MalformedArguments, with the path."""
    return _plain(value, None, 1)


def plain_object(value: Any) -> dict[str, Any]:
    """Raises MalformedArguments for anything but an object."""
    return _object_only(_plain(value, None, 1))


def plain_name(name: Any, what: str) -> str:
    """Return the name if JSON can carry it. Raises MalformedArguments, with the path `$.what`."""
    path = (None, what)
    return _text(name, path) if isinstance(name, str) and name else _fail(path, "must be a name")


def parse_json(text: str | bytes, most_bytes: int = MAX_BYTES) -> Any:
    """Parse untrusted JSON and refuse anything ambiguous.

    Raises MalformedArguments, with the path, for what `canonical_bytes` refuses, duplicate keys, numbers beyond the
    range of a double, invalid UTF-8 and syntax errors. The tool would receive another number for an integer beyond
    2**53 - 1.
    """
    return _plain(_decode(text, _integer, most_bytes), None, 1)


def parse_arguments(text: str | bytes) -> dict[str, Any]:
    """Raises MalformedArguments for anything but an object."""
    return _object_only(parse_json(text))


def parse_canonical(encoded: bytes) -> Any:
    """Raises MalformedArguments if the bytes are not canonical."""
    return _read_canonical(encoded, depth=1)


def parse_envelope(encoded: bytes) -> Any:
    """Parse an object that wraps arguments, and so is one level deeper."""
    return _read_canonical(encoded, depth=0)


def parse_checked(encoded: bytes) -> Any:
    """Parse bytes that were checked when stored. Ten times faster than `parse_canonical`."""
    return _checked.decode(encoded.decode())


class _DuplicateKey:
    def __init__(self, key: str) -> None:
        self.key = key


def _read_canonical(encoded: bytes, *, depth: int) -> Any:
    value = _plain(_decode(encoded, _number, MAX_BYTES + _ENVELOPE), None, depth)
    if _encoded(value) != encoded:
        raise MalformedArguments("$", "is not in canonical form (RFC 8785)")
    return value


def _encoded(value: Any) -> bytes:
    """Of plain JSON types."""
    return _encode(value).encode() if _is_simple(value, 0) else rfc8785.dumps(value)


_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def _is_simple(value: Any, depth: int) -> bool:
    """Whether `_plain` would change and refuse nothing, and the standard library's C encoder writes the same bytes.

    ECMAScript writes floats differently, and sorts keys as UTF-16.
    """
    kind = type(value)
    if kind is str:
        return "\0" not in value if value.isascii() else unstorable(value) is None
    if kind is int:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    if kind is dict:
        return depth <= MAX_DEPTH and all(
            type(key) is str and key.isascii() and "\0" not in key and _is_simple(member, depth + 1)
            for key, member in value.items()
        )
    if kind is list:
        return depth <= MAX_DEPTH and all(_is_simple(member, depth + 1) for member in value)
    return value is None or kind is bool


def _decode(text: str | bytes, parse_int: Callable[[str], int | float], limit: int) -> Any:
    try:
        encoded = text.encode() if isinstance(text, str) else text
        decoded = encoded.decode()
    except UnicodeError:
        raise MalformedArguments("$", "is not valid UTF-8") from None
    if len(encoded) > limit:
        raise MalformedArguments("$", f"is larger than {limit // 1024} KiB")
    try:
        return json.loads(decoded, parse_int=parse_int, object_pairs_hook=_object)
    except RecursionError:
        raise MalformedArguments("$", f"is nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise MalformedArguments("$", problem) from None


def _number(literal: str) -> int | float:
    short = len(literal) <= 17 and abs(int(literal)) <= MAX_INTEGER
    return int(literal) if short else float(literal)


_checked = json.JSONDecoder(parse_int=_number)


def _integer(literal: str) -> int:
    # CPython refuses very long literals; the walk refuses any integer beyond the limit.
    return int(literal) if len(literal) <= 20 else MAX_INTEGER + 1


def _object(pairs: list[tuple[str, Any]]) -> Any:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            return _DuplicateKey(key)
        seen[key] = value
    return seen


_Path = tuple[Any, Any] | None
"""Parent path and last step."""


def _plain(value: Any, path: _Path, depth: int) -> Any:  # noqa: RET503 (`_fail` never returns)
    """The only place that validates values."""
    match value:
        case str():
            return _text(value, path)
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= MAX_INTEGER else _fail(path, "is an integer beyond 2^53 - 1")
        case float():
            return float(value) if math.isfinite(value) else _fail(path, "is not a finite number")
        case _DuplicateKey():
            _fail(path, f"has the key {json.dumps(value.key)} twice")
        case dict() | list() | tuple() | Mapping() if depth > MAX_DEPTH:
            _fail(path, f"is nested deeper than {MAX_DEPTH} levels")
        case dict() | Mapping():
            return {_key(k, path): _plain(v, (path, k), depth + 1) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v, (path, i), depth + 1) for i, v in enumerate(value)]
        case _:
            _fail(path, f"is a {type(value).__name__}, which JSON does not have")


def _text(value: str, path: _Path, what: str = "") -> str:
    if (problem := unstorable(value)) is not None:
        _fail(path, what + problem)
    return value if type(value) is str else value.encode().decode()


def _key(key: Any, path: _Path) -> str:
    if not isinstance(key, str):
        _fail(path, f"has a key that is a {type(key).__name__}, not a string")
    return _text(key, path, "has a key that ")


def _fail(path: _Path, problem: str) -> Never:
    raise MalformedArguments(_shown(path), problem)


def _shown(path: _Path) -> str:
    if path is None:
        return "$"
    above, step = path
    if isinstance(step, int):
        return f"{_shown(above)}[{step}]"
    return f"{_shown(above)}.{step}" if _IDENTIFIER.match(step) else f"{_shown(above)}[{json.dumps(step)}]"


def _object_only(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedArguments("$", f"must be an object, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
