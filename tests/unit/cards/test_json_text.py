"""Arguments as people read them: exact, complete, without anything hidden."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.values import Action
from slackbot.cards import json_text

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(1 - 2**53, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXT
)  # fmt: skip
VALUE = st.recursive(
    SCALAR, lambda v: st.one_of(st.lists(v, max_size=4), st.dictionaries(TEXT, v, max_size=4)), max_leaves=10
)


@given(st.dictionaries(TEXT, VALUE, max_size=5))
def test_what_is_shown_is_what_is_stored(referee: Any, arguments: dict[str, Any]) -> None:
    """The shown text reads back as the very same action, and has no character that hides or turns."""
    action = Action("tool", "1", arguments)
    for shown in (json_text.pretty(action.arguments), json_text.compact(action.arguments)):
        assert not referee.invisible(shown)
        again = json.loads(
            shown, parse_int=lambda digits: int(digits) if abs(int(digits)) < 2**53 else float(digits)
        )
        assert Action("tool", "1", again).canonical == action.canonical


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1e16, "10000000000000000"),
        (0.1, "0.1"),
        ("a\nb", '"a\\nb"'),
        ('"\\', '"\\"\\\\"'),
        ("\\u202e", '"\\\\u202e"'),
        ("\u202e", '"\\u202e"'),
        ("\U000e0041", '"\\udb40\\udc41"'),
        ("\u00a0", '"\\u00a0"'),
        ("é日", '"é日"'),
        (" " * 18, '"' + " " * 16 + "\\u0020" * 2 + '"'),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_values_are_written_exactly(value: Any, shown: str) -> None:
    """Numbers have their canonical form; hidden characters and long runs of spaces are escapes."""
    assert json_text.compact(value) == shown


def test_members_stand_on_lines_of_their_own() -> None:
    """A person can read it."""
    assert (
        json_text.pretty({"a": [1, {"b": None}]})
        == '{\n  "a": [\n    1,\n    {\n      "b": null\n    }\n  ]\n}'
    )
