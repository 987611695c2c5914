"""Edits: what differs, where, and what of it may not be touched; and which paths `redact` means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.changes import approval_note, as_changes, between, differences, touches_hidden
from agent.domain.request_view import Change
from signoff.json_paths import format_path, is_redacted
from signoff.values import Action

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("$.a", 1, True)]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("$.a.b[1]", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("$.a", [1], [1, 2])]),
        ({"a": 1}, {"b": 2}, [("$.a", 1, None), ("$.b", None, 2)]),
        ({"a key": 1}, {"a key": 2}, [('$["a key"]', 1, 2)]),
        ({"a": {}}, {"a": []}, [("$.a", {}, [])]),
    ],
)
def test_differences_name_their_place(before, after, expected):
    """The smallest values that differ, with the path to them."""
    assert as_changes(differences(before, after)) == tuple(Change(*each) for each in expected)


@given(OBJECTS, OBJECTS)
def test_equal_arguments_and_no_others_have_no_difference(before, after):
    """Whether something differs is whether the digests do, but for keys that only one has and that are null."""
    same = Action("t", "1", before).digest == Action("t", "1", after).digest
    assert (not differences(before, after)) == same


def test_the_model_is_told_what_was_changed_and_written():
    """An edit in one sentence with paths and both values, then each note; nothing for neither."""
    first = Action("pay", "1", {"amount": 10, "to": "Ann"})
    second = Action("pay", "2", {"amount": 8, "to": "Bea"})
    assert approval_note(between(first.canonical, second.canonical), ["Not more"]) == (
        'A reviewer changed the arguments before approving: $.amount from 10 to 8; $.to from "Ann" to "Bea".\n'
        "Note given by a reviewer with the approval:\n> Not more"
    )
    assert approval_note(between(first.canonical, first.canonical), ()) == ""
    assert approval_note(between(None, second.canonical), ()) == ""


@pytest.mark.parametrize(
    ("steps", "redact", "hidden"),
    [
        (("card_number",), ["card_number"], True),
        (("to", "card_number"), ["card_number"], True),
        (("card_number", "last"), ["card_number"], True),
        (("card_number_hint",), ["card_number"], False),
        (("to", "card"), ["to.card"], True),
        (("to", "card", "n"), ["to.card"], True),
        (("to", "card"), ["args.to.card"], True),
        (("to", "card"), ["facts.to.card"], False),
        (("x", "to", "card"), ["to.card"], False),
        (("to",), ["to.card"], False),
        (("items", 0, "price"), ["items.price"], True),
        (("items", 0, "price"), ["items.0.price"], True),
        (("items", 1, "price"), ["items.0.price"], False),
        ((), ["a"], False),
    ],
)
def test_redact_means_names_anywhere_and_paths_from_the_top(steps, redact, hidden):
    """A name hides every value under it; a path hides the value there and what is below."""
    assert is_redacted(steps, redact) is hidden


def test_hidden_values_are_guarded_from_all_sides():
    """Changing one, removing it, or replacing what holds it counts as touching it; its neighbours are free."""
    before = {"to": {"card": "4", "name": "Ann"}, "items": [{"card": "5"}]}

    def touched(after):
        return touches_hidden(differences(before, after), before, after, ["card"])

    assert not touched(before | {"to": {"card": "4", "name": "Bea"}})
    assert touched(before | {"to": {"card": "9", "name": "Ann"}})
    assert touched(before | {"to": None})
    assert touched(before | {"items": []})
    assert touched(before | {"items": [{"card": "5"}, {"card": "6"}]})
    assert touched(before | {"new": {"card": "7"}})


def test_paths_are_written_as_people_read_them():
    """Names after dots, everything else in brackets."""
    assert format_path(("a", 0, "b c", "d")) == '$.a[0]["b c"].d'
