"""How many values a body has, counted without parsing it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.errors import MalformedArguments
from slackbot.web.http import bodies

TEXTS = st.text(st.sampled_from('[]{},:"\\ax \n'), max_size=8)
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def count(value: Any) -> int:
    """The value itself and all values in it."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(count(each) for each in inner)


@given(value=VALUES, indent=st.sampled_from([None, 2]))
def test_values_are_counted_exactly(value: Any, indent: int | None) -> None:
    """As many values as allowed are read, one more is refused, whatever the texts contain."""
    text = json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bodies, "MAX_VALUES", count(value))
        assert bodies.read_json(text) == value
        patched.setattr(bodies, "MAX_VALUES", count(value) - 1)
        with pytest.raises(MalformedArguments, match="more than"):
            bodies.read_json(text)
