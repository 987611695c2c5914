"""Function agents in a real service: two cards at once, a sleep that shows, work in the background; in one story."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from sqlalchemy import text

from signoff import ask, function_agent, sleep, start, step, tool
from tests.integration.service.conftest import House

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
"""


class Bench:
    """Counts how many are at work at the same time; each waits for one beside it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pair = threading.Barrier(2, timeout=60)
        self.now = self.most = self.total = 0

    def work(self) -> None:
        with self._lock:
            self.now, self.total = self.now + 1, self.total + 1
            self.most = max(self.most, self.now)
        self._pair.wait()
        with self._lock:
            self.now -= 1


bench = Bench()


@tool(read_only=True, concurrency=2, timeout=120)
def weld(part: int) -> int:
    """Weld a part; there are two benches."""
    bench.work()
    return part


def deploy(region: str) -> str:
    """Deploy to a region."""
    return f"{region} is deployed"


async def one_region(name: str) -> str:
    (await ask(f"Deploy to {name}?")).require()
    return await step(deploy, region=name)


@function_agent(name="rollout", tools=[deploy])
async def rollout(task: str) -> str:
    return ", ".join(await asyncio.gather(one_region("eu"), one_region("us")))


@function_agent(name="welder", tools=[weld])
async def welder(task: str) -> str:
    parts = await asyncio.gather(*(step(weld, part=n) for n in range(8)))
    return f"welded {parts}"


@function_agent(name="sleeper", tools=[rollout])
async def sleeper(task: str) -> str:
    below = await start(rollout, task="behind the scenes")
    await sleep("3d")
    return await below


def cards(house: House) -> list[dict[str, Any]]:
    return [m for m in house.slack.messages("C0REVIEW") if "Deploy to" in str(m.get("blocks"))]


async def decide(house: House, region: str, action: str) -> None:
    [card] = [
        m for m in cards(house) if f"Deploy to {region}?" in str(m["blocks"]) and "signoff:approve" in str(m)
    ]
    answer = await house.slack.person("U0GRACE").click(card, action)
    assert answer.error is None


async def both_cards(house: House) -> None:
    await house.slack.wait_for(lambda: len([m for m in cards(house) if "signoff:approve" in str(m)]) == 2)


async def test_tasks_of_a_function_agent_in_a_service(http_house: House) -> None:
    """Cards side by side, decided one by one; limits of tools hold; a sleep is shown until it is over."""
    house = http_house
    await house.open([rollout, welder, sleeper], POLICY)

    await house.ask("U0ADA", "now", "rollout")
    await both_cards(house)
    await decide(house, "us", "signoff:approve")
    await house.shows("SELECT answer FROM tool_call WHERE tool = 'deploy'", '"us is deployed"')
    assert await house.column("SELECT status::text FROM agent_run") == ["pending_approval"]
    await decide(house, "eu", "signoff:approve")
    await house.says("eu is deployed, us is deployed")

    await house.ask("U0ADA", "eight", "welder")
    await house.says("welded [0, 1, 2, 3, 4, 5, 6, 7]")
    assert (bench.total, bench.most) == (8, 2)

    await house.ask("U0ADA", "good night", "sleeper")
    await both_cards(house)
    await decide(house, "us", "signoff:approve")
    await decide(house, "eu", "signoff:approve")
    await house.says("💤 Sleeping")
    answer = await house.slack.person("U0ADA").command("/agent", "status", "C0AGENTS")
    assert "💤 Sleeping" in str(answer)
    async with house.db.transaction() as tx:
        await tx.execute(text("UPDATE tool_call SET retry_at = clock_timestamp() WHERE tool = 'sleep'"))
    await house.shows(
        "SELECT answer FROM agent_run WHERE agent = 'sleeper' AND status = 'completed'",
        "eu is deployed, us is deployed",
    )


@function_agent(name="reporter")
async def reporter(task: str) -> str:
    return f"reported: {task}"


@pytest.mark.parametrize("tells", [True, False])
async def test_the_setting_mentions_whoever_asked_or_nobody(http_house: House, *, tells: bool) -> None:
    """`SIGNOFF_TELL_REQUESTER=false`: the outcome is in the run's thread, and mentions nobody."""
    await http_house.open([reporter], POLICY, **({} if tells else {"SIGNOFF_TELL_REQUESTER": "false"}))
    await http_house.ask("U0ADA", "the week", agent="reporter")
    line = await http_house.says("reported: the week")
    assert ("<@U0ADA>" in line) is tells
