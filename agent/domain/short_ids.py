"""Short ids: 16 hexadecimal digits, which fit a line on a phone and work in every command.

A UUIDv7 (RFC 9562) has the millisecond, a counter, and random bits; the short form is the millisecond and the last
four digits: a range of a primary key. Two ids of one millisecond share a short form once in 65,536.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

_HEX = frozenset("0123456789abcdef")
_TIME, _TAIL, _FULL = 12, 4, 32
_SHORT = _TIME + _TAIL


def short_id(whole: UUID) -> str:
    """Return the 16 hexadecimal digits that stand for an id in messages and commands."""
    return whole.hex[:_TIME] + whole.hex[-_TAIL:]


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ids whose digits, without dashes, match `pattern`."""

    first: UUID
    last: UUID
    pattern: str


def parse_id_prefix(typed: str) -> IdRange | None:
    """An id, its beginning or short form, with dashes or without."""
    digits = typed.strip().replace("-", "").lower()
    if not digits or len(digits) > _FULL or not set(digits) <= _HEX:
        return None
    start, pattern = digits, f"^{digits}"
    if len(digits) == _SHORT:
        start = digits[:_TIME]
        pattern = f"^({digits}|{start}.{{{_FULL - _SHORT}}}{digits[_TIME:]}$)"
    return IdRange(UUID(start.ljust(_FULL, "0")), UUID(start.ljust(_FULL, "f")), pattern)
