"""Money and times in the one form that every surface uses."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from signoff import formats
from signoff.description import action_in_words
from signoff.formats import NO_MONEY, Money


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1899, "1,899.00"),
        (1234567.89, "1,234,567.89"),
        (0.00125, "0.00125"),
        (-20, "-20.00"),
        (0, "0.00"),
        (2**52, "4,503,599,627,370,496.00"),
        ("1899", "1,899.00"),
        ("1899.5", "1,899.50"),
        ("-0.10", "-0.10"),
        (2**60, None),
        (10**400, None),
        (1e300, None),
        (float("nan"), None),
        (float("-inf"), None),
        (True, None),
        (None, None),
        ("1" * 17, None),
        *(
            (each, None)
            for each in ("", "1,899", "1e5", "+5", "0071", " 5", "5\n", "٣", ".5", "5.", "NaN", "0x10", "$5")
        ),
        ([5], None),
        ({"price": 5}, None),
    ],
)
def test_money_is_exact(value: Any, shown: str | None) -> None:
    """Thousands apart, two places or more, never rounded; what is no plain number is left as it is."""
    assert formats.money(value) == shown


@pytest.mark.parametrize(
    ("declared", "steps", "is_money"),
    [
        ("facts.price", ("facts", "price"), True),
        ("facts.price", ("args", "price"), False),
        ("facts.price", ("facts",), False),
        ("facts.price", ("facts", "price", "net"), False),
        ("facts.price", ("facts", "order", "price"), False),
        ("args.items.price", ("args", "items", 2, "price"), True),
        ("args.items.2.price", ("args", "items", 2, "price"), True),
        ("args.items.1.price", ("args", "items", 2, "price"), False),
        ("args.prices", ("args", "prices", 1), True),
        ("args.table.3", ("args", "table", "3"), True),
        ("args.table.price", ("args", "table", "3", "price"), False),
        ("args.rows.price", ("args", "rows", 0, 1, "price"), True),
    ],
)
def test_a_path_names_one_value_or_those_of_a_list(
    declared: str, steps: tuple[str | int, ...], is_money: bool
) -> None:
    """A name is no place: neither the same name elsewhere nor what lies below the value is money."""
    assert (Money.declared([declared]).below(*steps).shown(5) == "5.00") is is_money
    assert NO_MONEY.below(*steps).shown(5) is None


def test_an_action_without_a_template_shows_declared_money_only() -> None:
    """The tool's name and its arguments write what policy declares as money; a name alone means nothing."""
    arguments = {"order_id": 12345, "amount": 1899, "price": 2}
    assert action_in_words("refund", arguments).text == "refund · order_id: 12345, amount: 1899, price: 2"
    money = Money.declared(["args.amount", "facts.price"])
    assert (
        action_in_words("refund", arguments, money).text
        == "refund · order_id: 12345, amount: 1,899.00, price: 2"
    )


def test_a_time_is_written_in_utc() -> None:
    """Whatever its zone, a time is shown in UTC, to the minute."""
    at = datetime(2027, 1, 31, 10, 5, 59, tzinfo=timezone(timedelta(hours=1)))
    assert formats.moment(at) == "2027-01-31 09:05 UTC"
