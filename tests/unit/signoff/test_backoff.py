"""How long everything waits before it tries again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime import model_turn, until_answered, work_queue
from agent.runtime.model_errors import ModelError
from agent.runtime.tool import LONGEST_BACKOFF, tool
from agent.usecases import outbound
from signoff.backoff import Backoff
from signoff.client import retries
from slackbot.delivery import failures
from slackbot.slack import socket_mode

HOURS = 3600.0


@pytest.mark.parametrize(
    ("backoff", "pauses", "longest", "spread"),
    [
        (failures.FOR_SLACK, [1, 2, 4, 6, 6], 6, (1, 1)),
        (failures.FOR_PEOPLE, [1, 2, 4, 8, 16, 32, 60, 60], 60, (1, 1)),
        (failures.UNKNOWN, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300], 300, (1, 1)),
        (outbound.PAUSES, [5, 10, 20, 40, 80, 160, 320], 6 * HOURS, (0.8, 1.2)),
        (model_turn.PAUSES, [1, 2, 4, 8, 16, 32, 60], 60, (0.75, 1.25)),
        (work_queue.RESTS, [2, 4, 8, 16, 32, 60], 60, (1, 1)),
        (until_answered.PAUSES, [0.2, 0.4, 0.8, 1.6, 3, 3], 3, (1, 1)),
        (socket_mode.BACKOFF, [5, 10, 20, 40, 60], 60, (1, 1.25)),
        (retries.PAUSES, [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5], 5, (0.5, 1)),
    ],
    ids=["slack", "people", "unknown", "webhooks", "model", "work", "writes", "sockets", "clients"],
)
def test_what_failed_waits_so_long(
    backoff: Backoff, pauses: list[float], longest: float, spread: tuple[float, float]
) -> None:
    """The pauses of each kind of work, to the second: after its first failures and after a thousand."""
    for chance, factor in zip((0.0, 1.0), spread, strict=True):
        for count, pause in enumerate(pauses, 1):
            assert backoff.after(count, chance) == pytest.approx(pause * factor)
        assert backoff.after(1_000_000, chance) == pytest.approx(longest * factor)


def test_a_tool_waits_twice_as_long_each_time() -> None:
    """A tool's pauses double from its own first one to an hour, however often it may be retried."""

    @tool(read_only=True, retries=100, backoff=2.0)
    def lookup() -> str:
        """Look it up."""
        return ""

    waits = [lookup.seconds_to_retry(OSError(), attempt) for attempt in (1, 2, 3, 11, 12, 100, 101)]
    assert waits == [2, 4, 8, 2048, LONGEST_BACKOFF, LONGEST_BACKOFF, None]


@pytest.mark.parametrize(("asked", "waits"), [(None, 5.0), (3.0, 5.0), (90.0, 90.0), (1e9, 6 * HOURS)])
def test_a_receiver_may_ask_for_a_longer_pause(asked: float | None, waits: float) -> None:
    """Its Retry-After counts where it is longer, up to six hours."""
    assert outbound.retry_delay(1, asked, 0.5) == pytest.approx(waits)


def test_a_model_may_ask_for_a_longer_pause() -> None:
    """A provider's Retry-After counts where it is longer than the pause."""
    error = ModelError("busy", retryable=True, retry_after=10.0)
    assert [model_turn.retry_in(error, before, 0.5) for before in range(5)] == [10, 10, 10, 10, 16]


@given(
    st.integers(1, 10**9),
    st.floats(0.001, 10),
    st.floats(10, 1e5),
    st.floats(0, 1),
    st.none() | st.floats(0, 1e6),
)
def test_a_pause_keeps_within_its_bounds(
    count: int, first: float, longest: float, chance: float, asked: float | None
) -> None:
    """Never shorter than the first pause or what was asked for, never longer than the longest unless asked for."""
    pause = Backoff(first, longest).after(count, chance, asked)
    assert max(first, asked or 0) <= pause <= max(longest, asked or 0)
