"""Single values: money, dates, lists and words, each shown as what it is."""

from __future__ import annotations

from typing import Any

import pytest

from slackbot.cards import scalars


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("price", 1499, "1,499.00"),
        ("price", 1499.5, "1,499.50"),
        ("refundAmount", 1234567.89, "1,234,567.89"),
        ("unit_price", 0.00125, "0.00125"),
        ("TOTAL_COST", -20, "-20.00"),
        ("price_cents", 149900, "149900"),
        ("total_rows", 12345, "12345"),
        ("price", 1e300, "1e+300"),
        ("balance", 0, "0.00"),
        ("rows", 12345, "12345"),
        ("ratio", 0.1, "0.1"),
        ("paid", True, "yes"),
        ("price", False, "no"),
        ("owner", None, "none"),
        ("tags", ["a", "b"], "a, b"),
        ("prices", [1, 2.5], "1.00, 2.50"),
        ("tags", ["a, b", "c"], '["a, b", "c"]'),
        ("items", [{"id": 1}], '[{"id": 1}]'),
        ("empty", "", '""'),
        ("spaces", "  ", '"  "'),
        ("none", [], "[]"),
        ("city", "Köln", "Köln"),
        ("answer", "yes", '"yes"'),
        ("answer", "None", '"None"'),
        ("order_id", "0071", '"0071"'),
        ("amount", "1,499.00", '"1,499.00"'),
        ("quoted", '"x"', r'"\"x\""'),
        ("json", "{}", '"{}"'),
        ("blank", " x", '" x"'),
        ("flags", [True, None], "yes, none"),
        ("lines", ["a\nb"], r'["a\nb"]'),
    ],
)
def test_values_by_type(name: str, value: Any, shown: str) -> None:
    """Money has two places and thousands apart; other numbers are exact; nothing looks like something else."""
    assert scalars.words(name, value) == shown


def test_money_has_its_currency_when_the_object_names_one() -> None:
    """`currency` beside an amount is shown with it; anything but three capitals is not taken for one."""
    assert scalars.currency_in({"price": 5, "currency": "EUR"}) == "EUR"
    assert scalars.currency_in({"currency": "<!here>"}) is None
    assert scalars.words("price", 5, "EUR") == "5.00 EUR"
    assert scalars.words("rows", 5, "EUR") == "5"
    assert scalars.amounts({"price": 5, "currency": "EUR"}) == "price 5.00 EUR"
    assert scalars.amounts({"price": 5}, said="Refund 5.00") == ""
