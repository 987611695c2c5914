"""Waiting for a condition: tests in other projects rely on it as well."""

from __future__ import annotations

import asyncio

import pytest

from signoff_demo.sandbox.changes import Changes


async def test_a_condition_of_something_else_is_seen() -> None:
    """A condition that comes true without any change in the sandbox ends the wait."""
    seen: list[int] = []
    asyncio.get_running_loop().call_later(0.01, seen.append, 1)
    assert await Changes().wait_for(lambda: seen, timeout=5) == [1]


async def test_a_condition_that_never_comes_true_ends_the_wait() -> None:
    """The wait is bounded."""
    with pytest.raises(TimeoutError):
        await Changes().wait_for(lambda: None, timeout=0.1)
