"""A pace with bursts."""

from __future__ import annotations

from itertools import pairwise

from slackbot.slack_api.allowance import BURST, Allowance


def test_after_a_rest_a_few_follow_at_once_and_many_follow_at_the_pace() -> None:
    """The first few are a step apart, all later ones the pace, and a rest brings the first back."""
    allowance, done = Allowance(step=0.5, pace=2.0), [100.0]
    for _ in range(60):
        done.append(done[-1] + allowance.spend(done[-1]))
    steps = [round(later - earlier, 3) for earlier, later in pairwise(done)]
    assert steps[: BURST - 1] == [0.5] * (BURST - 1)
    assert steps[10:] == [2.0] * 50
    assert allowance.spend(done[-1] + BURST * 2.0) == 0.5
