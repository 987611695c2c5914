"""Objects as people read them: one line a value, nested ones indented, before and after as a diff."""

from __future__ import annotations

from typing import Any

from signoff.formats import Money
from slackbot.cards import tree


def lines(referee: Any, shown: tree.ShownValues) -> list[str]:
    """The lines with their indentation, as a person sees them."""
    found = []
    for part in shown.parts:
        inner = part["elements"] if part["type"] == "rich_text_list" else [part]
        found += ["  " * part.get("indent", 0) + referee.words(each) for each in inner]
    return found


def test_points_in_time_also_in_the_readers_zone(referee: Any) -> None:
    """A date with a zone is shown as it is and as the reader's own time; other texts are left alone."""
    for value, seconds in (("2026-12-24T10:00:00Z", 1798106400), ("2026-12-24 11:00:00+01:00", 1798106400)):
        parts = tree.show_values({"paid_at": value}, 1000).parts
        dates = [part for _, part in referee.walk(parts) if part.get("type") == "date"]
        assert [part["timestamp"] for part in dates] == [seconds]
        assert value in referee.words(parts)
    for value in ("2026-12-24T10:00:00", "2026-12-24", "9999-99-99T10:00:00Z", "0001-01-01T00:00:00Z"):
        parts = tree.show_values({"paid_at": value}, 1000).parts
        assert "date" not in {part.get("type") for _, part in referee.walk(parts)}


def test_nested_objects_and_lists_are_indented(referee: Any) -> None:
    """What belongs together stands together, and declared amounts deep inside are still money."""
    value = {
        "order": {"currency": "EUR", "price": 5, "items": [{"sku": "A", "price": 3}, {"sku": "B"}]},
        "tags": ["a", "b"],
    }
    money = Money.declared(["order.price", "order.items.price"])
    shown = tree.show_values(value, 1000, money=money)
    assert lines(referee, shown) == [
        "order: ",
        "  currency: EUR",
        "  price: 5.00 EUR",
        "  items: 2 items",
        "    1: ",
        "      sku: A",
        "      price: 3.00",
        "    2: ",
        "      sku: B",
        "tags: a, b",
    ]
    assert shown.complete


def test_one_long_value_leaves_room_for_the_others(referee: Any) -> None:
    """A value full of somebody's prose is cut with a count, and the price behind it is still there."""
    shown = tree.show_values({"note": "x" * 10_000, "price": 5}, 2000)
    assert "price: 5" in referee.words(shown.parts)
    assert "more characters" in referee.words(shown.parts)
    assert not shown.complete


def test_too_many_values_are_counted(referee: Any) -> None:
    """What has no room is announced with its number, and a huge number does not cost drawing all of it."""
    shown = tree.show_values({f"fact {n}": n for n in range(50)}, 2000, 20)
    assert "… 30 more values not shown here" in referee.words(shown.parts)
    assert not shown.complete
    assert "at least 501 more values" in referee.words(
        tree.show_values({str(n): n for n in range(9999)}, 2000).parts
    )


def test_differences(referee: Any) -> None:
    """Before and after stand side by side, also for what came or went; what is equal is left out."""
    before = {"price": 1499, "gone": 1, "same": 2, "deep": {"a": 1, "b": 2}}
    after = {"price": 1999, "new": True, "same": 2, "deep": {"a": 1, "b": 3}}
    money = Money.declared(["price", "deep.b"])
    assert lines(referee, tree.changes(before, after, 1000, money)) == [
        "price: 1,499.00 → 1,999.00",
        "gone: 1 → nothing",
        "deep.b: 2.00 → 3.00",
        "deep: 1 unchanged",
        "new: nothing → yes",
    ]
    assert not tree.changes(before, before, 1000).parts


def test_one_and_true_are_different(referee: Any) -> None:
    """A change of type alone is a change."""
    assert lines(referee, tree.changes({"n": 1}, {"n": True}, 1000)) == ["n: 1 → yes"]


def test_a_value_with_before_and_after_is_a_diff(referee: Any) -> None:
    """Where a tool gives both, people see the difference; what is unchanged is counted and not called complete."""
    value = {"row": {"before": {"plan": "free", "seats": 3}, "after": {"plan": "pro", "seats": 3}, "id": 7}}
    shown = tree.show_values(value, 1000)
    assert lines(referee, shown) == ["row.plan: free → pro", "row: 1 unchanged", "  id: 7"]
    assert not shown.complete
    money = Money.declared(["new"])
    assert lines(referee, tree.show_values({"old": 1, "new": 2, "why": "x"}, 1000, money=money)) == [
        "why: x",
        "old → new: 1 → 2.00",
    ]


def test_long_texts_differ_line_by_line(referee: Any) -> None:
    """Of a text of many lines only what changed is shown, with what went and what came."""
    before = "\n".join(f"line {n}" for n in range(50))
    shown = tree.show_values(
        {"page": {"old": before, "new": before.replace("line 25", "LINE\u202e 25")}}, 3000
    )
    (box,) = [part for _, part in referee.walk(shown.parts) if part.get("type") == "rich_text_preformatted"]
    text = referee.words(box)
    assert "-line 25" in text
    assert "+LINE⟦U+202E⟧ 25" in text
    assert "line 40" not in text
    assert not shown.complete


def test_edits_are_told_by_path(referee: Any) -> None:
    """What a reviewer changed is named by the argument's path, without JSONPath's root."""
    made = [("$.amount", 1499, 1200), ("$.note", None, "x"), ("$.to[1].fee", 1, 2), ('$["a key"]', 1, 2)]
    money = Money.declared(["amount", "to.fee", "a key"])
    assert lines(referee, tree.edits(made, 1000, money)) == [
        "amount: 1,499.00 → 1,200.00", "note: none → x", "to[1].fee: 1.00 → 2.00", '$["a key"]: 1.00 → 2.00',
    ]  # fmt: skip
    assert lines(referee, tree.edits([("$.amount", 1499, 1200)], 1000)) == ["amount: 1499 → 1200"]
    assert lines(referee, tree.edits([('$["\\u0⟦redacted⟧"]', 1, 2)], 1000, money))[0].endswith(": 1 → 2")
