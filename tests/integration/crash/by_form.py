"""A service that dies while a group is posted and one form decides it: each vote counts once, and each call runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from signoff_demo.sandbox import NotOnScreen
from slackbot.cards.together_form import VERDICT
from slackbot.cards.values import ACTION_APPROVE, ACTION_DECIDE_TOGETHER
from tests.integration import invariants
from tests.integration.crash.process import FAULT_STATUS
from tests.integration.crash.street import Street, street, until

CALLS = 5

BY_FORM = (
    "before_request_commits:3",
    "after_request_commits:3",
    "after_card_accepted",
    "before_decision_commits:3",
    "after_decision_commits",
    "after_approved_claim:2",
    "after_ack:3",  # command, button, form
)

CHECKPOINT = """
[[checkpoint]]
checkpoint_id = "lane-{lane}"
action_pattern = "write_line"
when = "args.lane >= {first} && args.lane < {first} + 10"
channel = "C0LANE{lane}"
approvers = ["S0REVIEWERS"]
"""


async def die_by_form(url: str, folder: Path, *, deaths: Sequence[str]) -> None:
    """In each lane the service dies once: one vote and one decision for each call, each is shown, and each has run.

    A tool that was begun may be called again with its key: its process died. Where it dies between the questions of a
    turn, they may have cards: a batch waits for nobody longer than two seconds.
    """
    lanes = range(len(deaths))
    async with street(url, folder, lanes=len(deaths), options="(idempotent=True)") as here:
        checkpoints = (CHECKPOINT.format(lane=lane, first=10 * lane) for lane in lanes)
        (folder / "checkpoints.toml").write_text("".join(checkpoints))
        for lane, death in enumerate(deaths):
            await here.start(death)
            story = asyncio.create_task(_decide_until_death(here, lane))
            assert await here.serve.ends(60.0) == FAULT_STATUS, f"{death}: {here.serve.said()}"
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)
        await here.start()
        for lane in lanes:  # one person has one form open
            await _decide(here, lane)
        await until(lambda: _is_over(here), 60.0, here.serve.said)
        written = here.written()
        for lane in lanes:
            [(asked, *counts)] = await here.rows(_COUNTS.format(lane=lane))
            assert asked, deaths[lane]
            assert asked % CALLS == 0, (deaths[lane], asked)  # Ada may have asked several times
            assert counts == [asked] * 3, (deaths[lane], asked, counts)
            assert all(written[10 * lane + each] for each in range(CALLS)), (deaths[lane], written)
        assert await here.column(_HIDDEN) == [], "a request that no message shows"
        here._check_messages()
        assert await invariants.broken(here.db) == []


async def _decide_until_death(here: Street, lane: int) -> None:
    """Ask again if all is decided and has run without the point: a call may be claimed after its decision instead."""
    while here.serve.alive:
        await _decide(here, lane)
        await until(lambda: _is_over_or_dead(here), 60.0, here.serve.said)
        if here.serve.alive:
            await _ask(here, lane)


async def _is_over_or_dead(here: Street) -> bool:
    return not here.serve.alive or await _is_over(here)


async def _ask(here: Street, lane: int) -> None:
    calls = " ".join(f"write_line lane={10 * lane + each}" for each in range(CALLS))
    await here.slack.person("U0ADA").command("/agent", f"run writer {calls}", f"C0LANE{lane}")


async def _decide(here: Street, lane: int) -> None:
    """Ask, and send the form, until all is decided or the service has died."""
    await until(lambda: _is_decided(here, lane), 60.0, here.serve.said)


async def _is_decided(here: Street, lane: int) -> bool:
    channel = f"C0LANE{lane}"
    if not here.serve.alive:
        return True
    if not await here.column(_BEGUN.format(lane=lane)):
        await _ask(here, lane)
        return False
    grace = here.slack.person("U0GRACE")
    with suppress(NotOnScreen, TimeoutError):
        for message in here.slack.messages(channel):
            if ACTION_APPROVE in str(message["blocks"]):
                await grace.click(message, ACTION_APPROVE)
            if ACTION_DECIDE_TOGETHER not in str(message["blocks"]):
                continue
            here.slack.workspace.modals.clear("U0GRACE")
            await grace.click(message, ACTION_DECIDE_TOGETHER)
            form = await here.slack.wait_for(lambda: _form(here), timeout=5.0)
            if form is not None:
                await grace.submit(form, {VERDICT: "approve"})
    return await here.column(_DECIDED.format(lane=lane)) == [True]


def _form(here: Street) -> object:
    return next((each for each in here.slack.views("U0GRACE") if each["submit"]), None)


async def _is_over(here: Street) -> bool:
    return not await here.column(_UNFINISHED)


_BEGUN = "SELECT 1 FROM agent_run WHERE channel_id = 'C0LANE{lane}'"
_DECIDED = """
SELECT count(*) > 0 AND bool_and(status = 'approved') AND NOT EXISTS (
    SELECT FROM agent_run WHERE channel_id = 'C0LANE{lane}' AND status = 'working')
FROM approval_request WHERE channel_id = 'C0LANE{lane}'
"""
_COUNTS = """
SELECT count(DISTINCT r.id), count(DISTINCT v.id), count(DISTINCT d.request_id),
       count(DISTINCT r.id) FILTER (WHERE EXISTS (
           SELECT FROM execution AS e WHERE e.request_id = r.id AND e.status = 'succeeded'))
FROM approval_request AS r LEFT JOIN vote AS v ON v.request_id = r.id
LEFT JOIN decision AS d ON d.request_id = r.id WHERE r.channel_id = 'C0LANE{lane}'
"""
_HIDDEN = """
SELECT r.channel_id FROM approval_request AS r
JOIN card_place AS p ON p.request_id = r.id AND p.surface = 'channel'
LEFT JOIN request_group AS g ON g.name = p.digest WHERE coalesce(p.ts, g.ts) IS NULL
"""
_UNFINISHED = """
SELECT 1 FROM agent_run WHERE status IN ('working', 'pending_approval') UNION ALL
SELECT 1 FROM approval_request WHERE status = 'waiting' UNION ALL SELECT 1 FROM delivery WHERE state = 'pending'
"""
