"""How values are written for people and models: money, times, enumerations, quoted words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

Item = TypeVar("Item")

_AMOUNT = re.compile(
    "amount|balance|budget|charge|costs?|discount|fees?|payment|prices?|refund|salary|subtotal|sum|total"
)
_NOT_MONEY = re.compile(
    "bytes|cents?|count|days|hours|id|index|items|minor|minutes|ms|no|number|pct|pence|percent|qty|quantity|"
    "rate|ratio|rows|seconds|tokens|units|users|year"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}\Z", re.ASCII)
_MAX_DIGITS = 16  # precision of a double
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?\Z", re.ASCII)
"""A text that writes a number and nothing else, as programs send exact amounts."""


@dataclass(frozen=True, slots=True)
class Money:
    """The values that a policy's `money` declares, seen from one place: first from above `args` and `facts`.

    A path names one value: `facts.price`, `args.items.0.price`. A list without a number means each of its items.
    """

    _left: frozenset[tuple[str, ...]] = frozenset()

    @classmethod
    def declared(cls, paths: Iterable[str]) -> "Money":
        return cls(frozenset(tuple(path.split(".")) for path in paths))

    def below(self, *steps: str | int) -> "Money":
        left = self._left
        for step in steps:
            if not left:
                break
            named = (path[1:] for path in left if path and path[0] == str(step))
            left = frozenset([*named, *(left if isinstance(step, int) else ())])
        return Money(left)

    def shown(self, value: Any) -> str | None:
        """`1,499.00`; None for what is not declared here, or no number."""
        return money(value) if () in self._left else None


NO_MONEY = Money()


def money(value: Any) -> str | None:
    """Format a number, or a text that writes one: `1,499.00`. None for anything else.

    Never rounded: at least two decimal places. A number that a double cannot hold exactly is not shown as money.
    """
    if isinstance(value, str):
        return _with_places(Decimal(value)) if _DECIMAL.match(value) else None
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return _with_places(value)
    if isinstance(value, int) and abs(value) >= 10**_MAX_DIGITS:
        return None
    return _with_places(Decimal(repr(value)))


def moment(at: datetime) -> str:
    """UTC, to the minute: `2026-12-24 10:00 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def sounds_like_money(name: str) -> bool:
    """`refundAmount` and `items[0].price` are amounts; `total_rows` is not."""
    words = [word.lower() for word in _WORDS.findall(name.rpartition(".")[2])]
    return any(map(_AMOUNT.fullmatch, words)) and not any(map(_NOT_MONEY.fullmatch, words))


def _with_places(exact: Decimal) -> str | None:
    if not exact.is_finite() or abs(exact.adjusted()) >= _MAX_DIGITS:
        return None
    places = max(2, -int(exact.as_tuple().exponent))
    return f"{exact:,.{places}f}" if places <= _MAX_DIGITS else None


def in_words(name: str) -> str:
    """`order_id` and `orderId` as `Order id`; anything but a name stays."""
    if not _NAME.match(name):
        return name
    words = [word if word.isupper() and len(word) > 1 else word.lower() for word in _WORDS.findall(name)]
    spoken = " ".join(words)
    return spoken[:1].upper() + spoken[1:] if spoken else name


def enumerated(items: Sequence[Item], at_most: int = 1_000) -> Iterator[Item | str]:
    """The items and the words between them: `Ada and Grace`; `Ada, Grace and 2 more` beyond ``at_most``."""
    shown = items if len(items) <= at_most else items[: max(1, at_most - 1)]
    more = len(items) - len(shown)
    for number, item in enumerate(shown):
        last = number == len(shown) - 1 and not more
        if number:
            yield " and " if last else ", "
        yield item
    if more:
        yield f" and {more:,} more"


def quoted_lines(text: str) -> str:
    """Other people's words for a model: each line is marked, so that none can pass for anything else."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def after_colon(words: str) -> str:
    """`: words`; several lines are quoted below."""
    return f": {words}" if len(words.splitlines()) <= 1 else f":\n{quoted_lines(words)}"


def approval_notes(notes: Iterable[str]) -> str:
    """Reviewers' notes, for the model that continues."""
    return "\n".join(f"Note given by a reviewer with the approval:\n{quoted_lines(each)}" for each in notes)
