"""Single values: money, dates, lists and words, each shown as what it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from signoff.formats import Money
from slackbot.cards import scalars
from tests.unit.cards.conftest import make_view

MONEY = Money.declared(["value"]).below("value")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1499, "1,499.00"),
        (1499.5, "1,499.50"),
        (-20, "-20.00"),
        ("1499.5", "1,499.50"),
        ([1, 2.5, "n/a"], "1.00, 2.50, n/a"),
        (1e300, "1e+300"),
        (True, "yes"),
        (None, "none"),
        ("1e5", '"1e5"'),
        ({"net": 5}, '{"net": 5}'),
    ],
)
def test_declared_money(value: Any, shown: str) -> None:
    """Money has two places and thousands apart; what is no number is shown as it is."""
    assert scalars.words(value, MONEY) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        *((name, 1499, "1499") for name in ("price", "amount", "refundAmount", "TOTAL_COST", "balance")),
        ("price", 1499.5, "1499.5"),
        ("prices", [1, 2.5], "1, 2.5"),
        ("total_rows", 12345, "12345"),
        ("ratio", 0.1, "0.1"),
        ("paid", True, "yes"),
        ("owner", None, "none"),
        ("tags", ["a", "b"], "a, b"),
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
        ("amount", "1.000.000", '"1.000.000"'),
        ("amount", "-.5e3", '"-.5e3"'),
        ("version", "2.14.0", "2.14.0"),
        ("branch", "e5", "e5"),
        ("quoted", '"x"', r'"\"x\""'),
        ("json", "{}", '"{}"'),
        ("blank", " x", '" x"'),
        ("flags", [True, None], "yes, none"),
        ("lines", ["a\nb"], r'["a\nb"]'),
    ],
)
def test_values_by_type(name: str, value: Any, shown: str) -> None:
    """Without a declaration every number is exact, whatever its name; nothing looks like something else."""
    assert (name, scalars.words(value)) == (name, shown)


def test_money_has_its_currency_when_the_object_names_one() -> None:
    """`currency` beside an amount is shown with it; anything but three capitals is not taken for one."""
    assert scalars.currency_in({"price": 5, "currency": "EUR"}) == "EUR"
    assert scalars.currency_in({"currency": "<!here>"}) is None
    assert scalars.words(5, MONEY, "EUR") == "5.00 EUR"
    assert scalars.words(5, currency="EUR") == "5"


def test_money_among_the_facts_is_said_where_the_title_does_not() -> None:
    """Only declared facts, by their path, at most three, and none that the description has."""
    facts = {
        "price": 5, "amount": 7, "currency": "EUR", "lines": [{"cost": 1}, {"cost": 2, "currency": "USD"}], "fee": 9,
    }  # fmt: skip
    view = make_view(facts=facts, money=("facts.price", "facts.lines.cost", "facts.fee", "args.amount"))
    assert scalars.amounts(view) == "price 5.00 EUR, lines cost 1.00, lines cost 2.00 USD"
    assert scalars.amounts(replace(view, description="Refund 5.00")) == "lines cost 1.00, lines cost 2.00 USD"
    assert scalars.amounts(replace(view, description="Refund 15.00 or 5.001")).startswith("price 5.00 EUR")
    assert scalars.amounts(make_view(facts=facts, money=())) == ""
