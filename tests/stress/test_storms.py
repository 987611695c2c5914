"""Slack away in several ways while people decide: nothing is lost, and all surfaces are true when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from signoff_demo.sandbox.faults import Faults
from tests.integration.command import Command, signoff  # noqa: F401
from tests.integration.crash.process import Serve
from tests.integration.service.conftest import House, http_house, until  # noqa: F401
from tests.stress.budget import full
from tests.stress.rounds import counted
from tests.stress.test_agreement import CHANNEL, surfaces

DELIVERY = (
    "chat.postMessage",
    "chat.update",
    "conversations.info",
    "conversations.replies",
    "conversations.history",
)
AFTER, MENDED = 10.0, 70.0
"""Seconds until everything in Slack is true again: after an outage, and once people have mended something."""

Storm = Callable[[Faults], tuple[float, float]]
"""Begins; returns for how many seconds Slack is away, and how many may pass after that."""


def _slow_down(faults: Faults) -> tuple[float, float]:
    faults.ratelimited("chat.update", retry_after=30)
    return 30.0, AFTER


def _unavailable(faults: Faults) -> tuple[float, float]:
    for method in DELIVERY:
        faults.http_500(method, times=None)
    return full(180), AFTER


def _uninstalled(faults: Faults) -> tuple[float, float]:
    for method in DELIVERY:
        faults.error(method, "account_inactive", times=None)
    return full(60), MENDED


def _cut(faults: Faults) -> tuple[float, float]:
    for seed, method in enumerate(DELIVERY):
        faults.reset_after_accept(method, times=None, probability=0.5, seed=seed)
        faults.hang(method, 2.0, times=None, probability=0.3, seed=seed)
    return full(60), AFTER


def _archived(faults: Faults) -> tuple[float, float]:
    for method in ("chat.postMessage", "chat.update"):
        faults.error(method, "is_archived", times=None)
    return full(60), MENDED


STORMS: dict[str, Storm] = {
    "429 with 30 s": _slow_down,
    "503": _unavailable,
    "uninstalled and installed again": _uninstalled,
    "cut connections": _cut,
    "archived and opened again": _archived,
}


@pytest.mark.stress
@pytest.mark.parametrize("verdict", ["approved", "rejected"])
@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS.keys())
async def test_every_surface_is_true_after_a_storm(
    http_house: House,  # noqa: F811
    signoff: Command,  # noqa: F811
    storm: Storm,
    verdict: str,
) -> None:
    """Page, API and command line tell a decision at once; card, thread, message and Home, once, when Slack is back."""
    async with surfaces(http_house, signoff) as shown:
        request, card = await shown.ask()
        faults = shown.house.slack.faults
        away, left = storm(faults)
        began = monotonic()
        deciding = asyncio.create_task(shown.decided(request, card, verdict, patience=away + 120))
        await asyncio.sleep(away)
        faults.clear()
        over = monotonic() - began
        took = await deciding
        assert {name for name in ("page", "api", "cli") if took[name] > 5.0} == set()
        assert max(took.values()) <= over + left, took
        about = [each for each in shown.house.slack.messages(CHANNEL) if request in str(each.get("metadata"))]
        assert len(about) == 1
        thread = shown.house.slack.thread(CHANNEL, card["ts"])[1:]
        decided = [each for each in thread if "@grace" in str(each) or "U0GRACE" in str(each)]
        assert len(decided) == 1, decided


HELD = "SELECT lease_worker FROM outlet WHERE channel_id = :channel AND lease_until > clock_timestamp()"
AGENT = """
from signoff import Agent, tool


@tool
def delete_records(table_name: str, count: int = 0, note: str = "") -> str:
    return f"Deleted {count} records from {table_name}"


agent = Agent("data", "You manage data.", [delete_records])
"""


@pytest.mark.stress
async def test_every_surface_is_true_after_a_sender_was_killed(
    http_house: House,  # noqa: F811
    signoff: Command,  # noqa: F811
    tmp_path: Path,
) -> None:
    """One of two workers dies by SIGKILL in the middle of a call to Slack: the other tells, once, after its lease."""
    house = http_house
    (tmp_path / "workers_agents.py").write_text(AGENT)
    settings = house.environment | {"SIGNOFF_ROLES": "worker", "SIGNOFF_AGENTS": "workers_agents"}
    async with surfaces(house, signoff, roles="web,scheduler") as shown:
        workers = [Serve(settings, tmp_path) for _ in range(2)]
        for verdict in counted(["approved", "rejected"] * full(4)):
            for each in workers:
                if not each.alive:
                    await each.start(listens=False)
            request, card = await shown.ask()
            for method in ("chat.update", "chat.postMessage"):
                house.slack.faults.slow(method, 2.0, times=None)
            deciding = asyncio.create_task(shown.decided(request, card, verdict))
            [sender] = await until(lambda: house.column(HELD, channel=CHANNEL))
            [dying] = [each for each in workers if f":{each.pid}:" in sender]
            await dying.kill()
            house.slack.faults.clear()
            took = await deciding
            assert max(took.values()) <= AFTER, took
            about = [each for each in house.slack.messages(CHANNEL) if request in str(each.get("metadata"))]
            assert len(about) == 1
        for each in workers:
            await each.kill()
