"""What has no room in a request is left out of the middle of its context, and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.canonical import MAX_BYTES
from signoff.context_limit import MAX_CONTEXT, MAX_VALUES, fit_context
from signoff.errors import MalformedArguments


def deep(levels: int) -> Any:
    return [deep(levels - 1) for _ in range(5)] if levels else "a value at the bottom"


@pytest.mark.parametrize(
    "whole", [None, "x", {"task": "tidy", "steps": [1, 2.5, {"a": [True]}]}, "ä" * 60_000]
)
def test_what_fits_stays_as_it_is(whole: Any) -> None:
    """Nothing is left out, whatever there is."""
    assert fit_context(whole, {}) == whole


@pytest.mark.parametrize(
    ("value", "left_out"),
    [
        ("ä" * 100_000, "83,616 of 100,000 characters of agent_context.state"),
        (["x" * 90] * 3000, "1,976 of 3,000 items of agent_context.state"),
        ({f"k{n}": n for n in range(20_000)}, "15,904 of 20,000 fields of agent_context.state"),
    ],
)
def test_beginning_and_end_stay_and_the_rest_is_counted(value: Any, left_out: str) -> None:
    """In the place of what was left out stand its number and its field. Cut again, it is the same."""
    seen = fit_context({"state": value, "task": "tidy"}, {})
    assert seen["task"] == "tidy"
    assert f"[… {left_out} left out …]" in str(seen["state"])
    ends = (
        (list(value.items()), list(seen["state"].items()))
        if isinstance(value, dict)
        else (value, seen["state"])
    )
    assert ends[1][0] == ends[0][0]
    assert str(ends[0][-1]) in str(ends[1])
    assert fit_context(seen, {}) == seen


@pytest.mark.parametrize("whole", ["x" * 10**6, deep(6), [[[["y" * 500] * 40] * 40] * 2], {"k" * 300_000: 1}])
def test_it_always_fits(whole: Any) -> None:
    """Whatever its shape, it leaves the other fields their room."""
    others = {"arguments": "a" * (MAX_BYTES // 2 + 50_000)}
    for given in ({}, others):
        seen = json.dumps(fit_context(whole, given), ensure_ascii=False, separators=(",", ":"))
        assert len(seen.encode()) <= MAX_CONTEXT
        assert len(seen.encode()) + len(json.dumps(given)) < MAX_BYTES


def test_it_counts_values() -> None:
    """Many small values are too many as well."""
    seen = fit_context(list(range(MAX_VALUES * 3)), {})
    assert len(seen) <= MAX_VALUES


def test_what_is_no_json_is_refused() -> None:
    """With its path, as everywhere."""
    with pytest.raises(MalformedArguments, match=r"\$\.at"):
        fit_context({"at": object()}, {})
