"""A service that dies while people answer questions; the answer counts once and reaches its function."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from signoff_demo.sandbox import NotOnScreen
from tests.integration import invariants
from tests.integration.crash.process import FAULT_STATUS
from tests.integration.crash.street import Street, street, until

BY_ANSWERS = (
    "before_request_commits",
    "after_request_commits",
    "after_card_accepted",
    "before_decision_commits",
    "after_decision_commits",
    "after_ack:2",  # the second acknowledgement is the click's
)
"""The other points belong to turns of a model, to what is executed, and to deadlines."""

AGENT = """
from signoff import ask, function_agent


@function_agent
async def asker(task: str) -> str:
    answer = await ask(task, options=["eu", "us"])
    return f"{answer.cause}: {answer.value}"
"""

CHECKPOINT = """
[[checkpoint]]
checkpoint_id = "lane-{lane}"
action_pattern = "ask"
when = 'args.question == "lane {lane}"'
channel = "C0LANE{lane}"
approvers = ["S0REVIEWERS"]
"""


async def die_by_answers(url: str, folder: Path, *, deaths: Sequence[str]) -> None:
    """In each lane the service dies once: one card, one answer, one decision, and a function that has its value.

    After the deciding commit the function goes on without a second press, although nobody told its run.
    """
    async with street(url, folder, lanes=len(deaths)) as here:
        (folder / "askers.py").write_text(AGENT)
        lanes = range(len(deaths))
        (folder / "checkpoints.toml").write_text("".join(CHECKPOINT.format(lane=lane) for lane in lanes))
        for lane, death in enumerate(deaths):
            await here.start(death, SIGNOFF_AGENTS="askers")
            story = asyncio.create_task(_answers(here, lane))
            assert await here.serve.ends(60.0) == FAULT_STATUS, f"{death}: {here.serve.said()}"
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)
            decided = death == "after_decision_commits" or death.startswith("after_ack")
            if death == "before_decision_commits" or decided:
                counts = await here.rows(_COUNTS.format(lane=lane))
                assert counts == [(decided, decided, decided)], death
            if decided:
                await here.start(SIGNOFF_AGENTS="askers")
                await until(lambda lane=lane: here.column(_ENDED.format(lane=lane)), 30.0, here.serve.said)  # type: ignore[misc]
                await here.serve.kill()
        await here.start(SIGNOFF_AGENTS="askers")
        await asyncio.gather(*(_answers(here, lane) for lane in lanes))
        await until(lambda: _is_over(here), 30.0, here.serve.said)
        answers = await here.column("SELECT DISTINCT answer FROM agent_run")
        assert answers == ["answered: us"], answers
        for lane in lanes:
            assert await here.rows(_COUNTS.format(lane=lane)) == [(1, 1, 1)], deaths[lane]
            assert len(here.cards(lane)) == 1, deaths[lane]
        assert await here.column("SELECT count(*) FROM execution") == [0]
        assert await invariants.broken(here.db) == []


async def _answers(here: Street, lane: int) -> None:
    """Ask and press until the press is recorded, or the service has died."""
    await until(lambda: _is_answered(here, lane), 60.0, here.serve.said)


async def _is_answered(here: Street, lane: int) -> bool:
    """People press again when Slack says that it failed."""
    if not await here.column(_BEGUN.format(lane=lane)):
        await here.slack.person("U0ADA").command("/agent", f"run asker lane {lane}", f"C0LANE{lane}")
    with suppress(NotOnScreen):
        for card in here.cards(lane):
            await here.slack.person("U0GRACE").click(card, "signoff:choose_1")
    return not here.serve.alive or bool(await here.column(_DECIDED.format(lane=lane)))


async def _is_over(here: Street) -> bool:
    return not await here.column(_UNFINISHED)


_BEGUN = "SELECT 1 FROM agent_run WHERE channel_id = 'C0LANE{lane}'"
_DECIDED = "SELECT 1 FROM approval_request WHERE channel_id = 'C0LANE{lane}' AND status <> 'waiting'"
_ENDED = "SELECT 1 FROM agent_run WHERE channel_id = 'C0LANE{lane}' AND status = 'completed'"
_COUNTS = """
SELECT count(v.id), count(w.vote_id), count(d.request_id) FROM approval_request AS r
LEFT JOIN vote AS v ON v.request_id = r.id LEFT JOIN answer AS w ON w.vote_id = v.id
LEFT JOIN decision AS d ON d.request_id = r.id WHERE r.channel_id = 'C0LANE{lane}'
"""
_UNFINISHED = """
SELECT 1 FROM agent_run WHERE status IN ('working', 'pending_approval') UNION ALL
SELECT 1 FROM approval_request WHERE status = 'waiting' UNION ALL SELECT 1 FROM delivery WHERE state = 'pending'
"""
