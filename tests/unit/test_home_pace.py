"""When an App Home is drawn again."""

from __future__ import annotations

from itertools import pairwise

from slackbot.slack.app_home import LOOK, PACE, HomeViewer
from tests.integration.asking import GRACE


def test_after_a_rest_changes_follow_at_once_and_many_follow_slowly() -> None:
    """The first changes are half a second apart, all later ones two seconds, and a rest brings the first back."""
    viewer, drawn = HomeViewer(GRACE), [100.0]
    for _ in range(60):
        viewer.spend(drawn[-1], LOOK, PACE)
        drawn.append(viewer.not_before)
    steps = [round(later - earlier, 3) for earlier, later in pairwise(drawn)]
    assert steps[:3] == [LOOK] * 3
    assert steps[10:] == [PACE] * 50
    viewer.spend(drawn[-1] + 4 * PACE, LOOK, PACE)
    assert viewer.not_before == drawn[-1] + 4 * PACE + LOOK
