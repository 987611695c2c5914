"""Facts: money, dates, lists and words, each shown as what it is."""

from __future__ import annotations

from typing import Any

import pytest

from slackbot.cards import facts


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
    ],
)
def test_values_by_type(name: str, value: Any, shown: str) -> None:
    """Money has two places and thousands apart; other numbers are exact; nothing looks like something else."""
    assert facts.value_text(name, value) == shown


def test_points_in_time_also_in_the_readers_zone(referee: Any) -> None:
    """A date with a zone is shown as it is and as the reader's own time; other texts are left alone."""
    for value, seconds in (("2026-12-24T10:00:00Z", 1798106400), ("2026-12-24 11:00:00+01:00", 1798106400)):
        (item,) = facts.shown({"paid_at": value}).items
        dates = [part for _, part in referee.walk(item) if part.get("type") == "date"]
        assert [part["timestamp"] for part in dates] == [seconds]
        assert value in referee.words(item)
    for value in ("2026-12-24T10:00:00", "2026-12-24", "9999-99-99T10:00:00Z", "0001-01-01T00:00:00Z"):
        (item,) = facts.shown({"paid_at": value}).items
        assert "date" not in {part.get("type") for _, part in referee.walk(item)}


def test_one_long_fact_leaves_room_for_the_others(referee: Any) -> None:
    """A fact full of somebody's prose is cut with a count, and the price behind it is still there."""
    shown = facts.shown({"note": "x" * 10_000, "price": 5})
    assert "price: 5.00" in referee.words(shown.items)
    assert "more characters" in referee.words(shown.items)
    assert not shown.complete


def test_too_many_facts_are_counted(referee: Any) -> None:
    """What has no room is announced with its number."""
    shown = facts.shown({f"fact {n}": n for n in range(50)})
    assert "… 30 more not shown" in referee.words(shown.items)
    assert not shown.complete
    assert facts.shown({"a": 1}).complete


def test_differences(referee: Any) -> None:
    """Before and after stand side by side, also for what came or went; what is equal is left out."""
    items = facts.changes(
        {"price": 1499, "gone": 1, "same": 2}, {"price": 1999, "new": True, "same": 2}
    ).items
    assert [referee.words(item) for item in items] == [
        "price: 1,499.00 → 1,999.00",
        "gone: 1 → gone",
        "new: not there → yes",
    ]
