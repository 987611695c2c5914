"""Which values of an argument or fact a grant covers.

Values of unexpected types are not allowed; `allows` never raises. Up to 50 grants are compared with a call, whose
arguments may be long, so results are kept per value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from agent.domain.expression import matches_whole
from signoff.canonical import MAX_INTEGER, canonical_bytes
from signoff.formats import NO_MONEY, Money

MAX_CHOICES = 100


@dataclass(frozen=True)
class FieldValue:
    """A call's value for one field, whose comparable forms are computed only once for all grants."""

    value: Any
    _patterns: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def canonical(self) -> bytes:
        return canonical_bytes(self.value)

    @cached_property
    def number(self) -> Decimal | None:
        return exact_number(self.value)

    def fits(self, pattern: str) -> bool:
        if pattern not in self._patterns:
            self._patterns[pattern] = isinstance(self.value, str) and matches_whole(pattern, self.value)
        return self._patterns[pattern]


@dataclass(frozen=True)
class Exact:
    """A constraint to one JSON value, compared in canonical form: 1 equals 1.0, but not true."""

    value: Any

    @cached_property
    def canonical(self) -> bytes:
        return canonical_bytes(self.value)

    def allows(self, given: FieldValue) -> bool:
        # In Python true equals 1, so == proves equality only of texts; otherwise it is a fast way to see a
        # difference.
        same_text = isinstance(given.value, str) and isinstance(self.value, str)
        return bool(given.value == self.value) and (same_text or given.canonical == self.canonical)


@dataclass(frozen=True, slots=True)
class Between:
    """A number, bounds included."""

    low: Decimal
    high: Decimal

    def allows(self, given: FieldValue) -> bool:
        return given.number is not None and self.low <= given.number <= self.high


@dataclass(frozen=True, slots=True)
class OneOf:
    """Booleans, or choices that the tool's parameters list."""

    values: tuple[Any, ...]

    def allows(self, given: FieldValue) -> bool:
        return any(Exact(each).allows(given) for each in self.values)


@dataclass(frozen=True, slots=True)
class Fits:
    """A pattern of the checkpoint matches the whole text."""

    pattern: str

    def allows(self, given: FieldValue) -> bool:
        return given.fits(self.pattern)


Constraint = Exact | Between | OneOf | Fits


def exact_number(value: Any) -> Decimal | None:
    """``None`` for booleans, NaN, infinities and all that is no JSON number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    exact = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    return exact if exact.is_finite() else None


def json_number(exact: Decimal) -> int | float:
    """Return a decimal as a JSON number: an integer if it is whole, otherwise the nearest double."""
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def keeps_exactly(exact: Decimal) -> bool:
    """Return whether JSON keeps a number: a whole one up to 2**53 - 1, another if a double has all its digits."""
    if not exact.is_finite():
        return False
    whole = exact == exact.to_integral_value()
    return abs(exact) <= MAX_INTEGER if whole else Decimal(repr(float(exact))) == exact


def constraint_as_json(constraint: Constraint) -> dict[str, Any]:
    """Return the JSON form in which a grant stores a constraint; `read_constraint` reads it."""
    match constraint:
        case Exact(value):
            return {"is": value}
        case Between(low, high):
            return {"from": json_number(low), "to": json_number(high)}
        case OneOf(values):
            return {"one_of": list(values)}
        case Fits(pattern):
            return {"fits": pattern}


def read_constraint(stored: Any) -> Constraint:
    """Raises ValueError."""
    match stored:
        case {"is": value, **more} if not more:
            return Exact(value)
        case {"from": low, "to": high, **more} if not more:
            at_least, at_most = exact_number(low), exact_number(high)
            if at_least is None or at_most is None or at_least > at_most:
                raise ValueError("has no bounds")
            return Between(at_least, at_most)
        case {"one_of": [*values], **more} if not more and 0 < len(values) <= MAX_CHOICES:
            return OneOf(tuple(values))
        case {"fits": str(pattern), **more} if not more:
            return Fits(pattern)
        case _:
            raise ValueError("is not a constraint")


def constraint_in_words(name: str, constraint: Constraint, money: Money = NO_MONEY) -> str | None:
    """``None`` for exact values."""
    match constraint:
        case Between(low, high):
            return f"{name} from {number_in_words(low, money)} to {number_in_words(high, money)}"
        case OneOf(values):
            return f"{name} one of {', '.join(money.shown(each) or str(each) for each in values)}"
        case Fits(pattern):
            return f"{name} fitting {pattern}"
        case Exact():
            return None


def number_in_words(exact: Decimal, money: Money = NO_MONEY) -> str:
    """Return a number for people to read: as money if declared so, otherwise with thousands separators."""
    return money.shown(exact) or f"{json_number(exact):,}"


def freed(constraints: Mapping[str, Constraint], money: Money = NO_MONEY) -> list[str]:
    """Return each constraint that leaves a field some freedom, in words; exact values are left out."""
    words = (constraint_in_words(name, each, money.below(name)) for name, each in constraints.items())
    return [each for each in words if each is not None]
