"""Money and times in the one form that every surface uses."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from signoff import formats
from signoff.description import tool_and_arguments


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("price", 1899, "1,899.00"),
        ("refundAmount", 1234567.89, "1,234,567.89"),
        ("unit_price", 0.00125, "0.00125"),
        ("TOTAL_COST", -20, "-20.00"),
        ("items[2].price", 5, "5.00"),
        ("prices[1]", 5.5, "5.50"),
        ("price", 2**52, "4,503,599,627,370,496.00"),
        ("price", 2**60, None),
        ("price", 1e300, None),
        ("price", float("nan"), None),
        ("price", True, None),
        ("price", "1899", None),
        ("price_cents", 189900, None),
        ("total_rows", 12345, None),
        ("order_id", 5, None),
        ("price.order_id", 5, None),
    ],
)
def test_money_is_known_by_its_name(name: str, value: Any, shown: str | None) -> None:
    """Thousands apart, two places or more, never rounded; what is not surely money is left alone."""
    assert formats.amount(name, value) == shown


def test_an_action_without_a_template_shows_money_in_the_same_way() -> None:
    """The tool's name and its arguments write an amount like every other surface; ids stay as they are."""
    assert tool_and_arguments("refund", {"order_id": 12345, "amount": 1899}) == (
        "refund(order_id: 12345, amount: 1,899.00)"
    )


def test_a_time_is_written_in_utc() -> None:
    """Whatever its zone, a time is shown in UTC, to the minute."""
    at = datetime(2027, 1, 31, 10, 5, 59, tzinfo=timezone(timedelta(hours=1)))
    assert formats.moment(at) == "2027-01-31 09:05 UTC"
