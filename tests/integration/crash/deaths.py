from __future__ import annotations

from collections.abc import Sequence

from tests.integration.crash.process import FAULT_STATUS
from tests.integration.crash.street import Street

EVERY = (
    "in_expiry_batch",
    "after_turn",
    "before_request_commits",
    "after_request_commits",
    "before_decision_commits",
    "after_decision_commits",
    "before_resume",
    "after_claim",
    "after_approved_claim",
    "after_effect",
    "after_result",
    "after_ack:2",  # the second acknowledgement is the click's
    "after_card_accepted",
)
"""Each start is armed with the next point, and first finds what the last death left."""

WORST = ("after_decision_commits", "after_approved_claim", "after_effect", "after_card_accepted")
"""A decision without a claim, an attempt without an effect, an effect without a result, a card without a `ts`."""

LOOKED_AT = ("after_decision_commits", "before_resume", "after_claim")
"""Points of a call that is not claimed with its decision."""

STUCK = 30.0
"""Seconds after a restart within which everything has to proceed again."""


async def die_and_recover(here: Street, deaths: Sequence[str], first_lane: int = 0) -> None:
    """Restart once more at the end: everything ends."""
    for lane, death in enumerate(deaths, first_lane):
        here.tool = "write_line_checked" if death in LOOKED_AT else "write_line"
        await here.start(death)
        status = await here.play_until_death(lane, overdue=death == "in_expiry_batch")
        assert status == FAULT_STATUS, f"{death}: {status}\n{here.serve.said()}"
    await here.start()
    await here.settle_all(STUCK)
    await here.check()
