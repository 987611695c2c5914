"""The shipped agents, killed at each of their steps, end as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from signoff_demo.examples import shop
from signoff_demo.sandbox import NotOnScreen
from tests.integration import invariants
from tests.integration.crash.deaths import STUCK
from tests.integration.crash.street import Street, street, until

CHECKPOINTS = """
[defaults]
channel = "C0LANE0"
approvers = ["S0REVIEWERS"]
on_reject = "tell_model"

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "process_refund"
when = "facts.price > 1000.0"
"""
_SHOP = threading.Lock()


@dataclass(frozen=True)
class Example:
    module: str
    asked: str
    approvals: int
    results: tuple[str, ...]


EXAMPLES = {
    "data_manager": Example(
        "signoff_demo.examples.data_manager",
        "run data_manager delete_records table_name=users count=50 and send_notification recipient=ops message=done",
        2,
        ("Deleted 50 records from users", "Sent notification to ops: done"),
    ),
    "durable_task": Example(
        "signoff_demo.examples.durable_task",
        "run durable-task move house",
        1,
        ('"prepared: move house"', '"carried out: move house"'),
    ),
    "rollout": Example(
        "signoff_demo.examples.rollout",
        "run rollout version 7",
        2,
        ('"eu is deployed"', '"us is deployed"', "null", "null", '"eu is well"', '"us is well"'),
    ),
    "refunds": Example(
        "signoff_demo.examples.refunds",
        "run refunds please refund order 7",
        1,
        ("The refund of 1249.50 for order 7",),
    ),
}


async def die_at(death: str, example: Example, url: str, folder: Path) -> None:
    """Let the service die at this point if it reaches it, and restart it; approve everything and settle what is in
    doubt.
    """
    async with street(url, folder, lanes=1) as here:
        (folder / "checkpoints.toml").write_text(CHECKPOINTS)
        changes = {"SIGNOFF_AGENTS": example.module, "SIGNOFF_SHOP_URL": url}
        if example.module.endswith("refunds"):
            await asyncio.to_thread(_open_the_shop, url)
        await here.start(death, **changes)
        story = asyncio.create_task(_play(here, example))
        dies = asyncio.create_task(here.serve.ends(90.0))
        await asyncio.wait({story, dies}, return_when=asyncio.FIRST_COMPLETED)
        await here.serve.kill()
        story.cancel()
        await asyncio.gather(story, dies, return_exceptions=True)
        await here.start(**changes)
        if not await here.column("SELECT 1 FROM agent_run"):
            await _ask(here, example)
        await until(lambda: _over(here), STUCK, here.serve.said)
        await _check(here, example)


def _open_the_shop(url: str) -> None:
    """For one example at a time."""
    with _SHOP:
        os.environ["SIGNOFF_SHOP_URL"] = url
        try:
            asyncio.run(shop.setup(fresh=True))
        finally:
            del os.environ["SIGNOFF_SHOP_URL"]


async def _ask(here: Street, example: Example) -> None:
    await here.slack.person("U0ADA").command("/agent", example.asked, "C0LANE0")


async def _play(here: Street, example: Example) -> None:
    await _ask(here, example)
    await until(lambda: _over(here), 60.0)


async def _over(here: Street) -> bool:
    """Approve all requests and retry all calls in doubt; true when every run has ended."""
    for card in here.cards(0):
        for action in ("signoff:approve", "signoff:retry"):
            try:
                await here.slack.person("U0GRACE").click(card, action)
            except NotOnScreen:
                continue
    for line in _doubts(here):
        try:
            await here.slack.person("U0ADA").click(line, "signoff:retry_call")
        except NotOnScreen:
            continue
    # One query: background work wakes its run in the commit that answers the call.
    over = """
        SELECT EXISTS (SELECT FROM agent_run)
           AND NOT EXISTS (SELECT FROM agent_run WHERE status IN ('working', 'pending_approval'))
           AND NOT EXISTS (SELECT FROM tool_call WHERE state <> 'answered')
    """
    return await here.column(over) == [True]


def _doubts(here: Street) -> list[dict[str, object]]:
    """Lines in run threads with a button to settle a call that nobody was asked about."""
    roots = here.slack.messages("C0LANE0")
    lines = [line for root in roots for line in here.slack.thread("C0LANE0", root["ts"])[1:]]
    return [line for line in lines if "signoff:retry_call" in str(line.get("blocks"))]


async def _check(here: Street, example: Example) -> None:
    ended = await here.column("SELECT status::text || coalesce(': ' || cause, '') FROM agent_run")
    assert ended == ["completed"], here.serve.said()
    answers = await here.column("SELECT answer FROM tool_call WHERE tool <> 'ask'")
    assert len(answers) == len(example.results), answers
    for expected in example.results:  # branches have no order
        assert sum(expected in answer for answer in answers) == example.results.count(expected), answers
    decided = "SELECT count(*) FROM decision WHERE outcome = 'approved'"
    assert await here.column(decided) == [example.approvals]
    assert await invariants.broken(here.db) == []
