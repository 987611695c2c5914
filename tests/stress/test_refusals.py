"""A database that refuses and writes again, over and over; sweeps that fail and work again beside each other."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import pytest

from agent.database.embedded_server import EmbeddedServer
from agent.database.pools import Database
from agent.usecases import audit, failing_sweeps
from slackbot.service.scheduler import KEEPS_FAILING
from tests.integration import invariants
from tests.integration.crash.refusals import MAY_MOUNT, REFUSALS
from tests.integration.crash.test_health import says
from tests.integration.crash.test_refusals import Town, disk, open_town
from tests.integration.service.conftest import until
from tests.integration.test_every_sweep import SWEEPS, scheduler_of
from tests.stress.budget import full
from tests.stress.rounds import counted

__all__ = ["disk"]

CALLERS = 6
PER_PHASE = 30
"""Answers before the database changes its mind."""


@pytest.mark.stress
async def test_refusals_at_random_under_load(disk: EmbeddedServer) -> None:
    """What was answered with success is stored, what was refused is not, and afterwards everything works."""
    dice, kinds = random.Random(7), [how for how in REFUSALS if how != "full disk" or MAY_MOUNT]
    async with AsyncExitStack() as stack:
        town = await open_town(disk, stack)
        answers: dict[str, tuple[int, str]] = {}
        callers = [asyncio.create_task(_call(town, answers, number)) for number in range(CALLERS)]
        for _ in counted(range(full(40))):
            with REFUSALS[dice.choice(kinds)][0](disk):
                await until(partial(_more, answers, len(answers) + PER_PHASE), 60)
            await until(partial(_more, answers, len(answers) + PER_PHASE), 60)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        await says(town.service, 200, database="ok")
        stored = set(await town.house.column("SELECT client_id FROM approval_request"))
        assert {name for name, (status, _) in answers.items() if status == 201} <= stored
        refused = {name for name, (_, words) in answers.items() if "Nothing was done" in words}
        assert not refused & stored
        assert Counter(status for status, _ in answers.values()).keys() <= {201, 503}
        assert await invariants.broken(town.house.db) == []
        assert (await town.program.ask("after")).status_code == 201


async def _call(town: Town, answers: dict[str, tuple[int, str]], number: int) -> None:
    asked = 0
    while True:
        asked += 1
        name = f"c{number}-{asked}"
        answer = await town.program.ask(name)
        answers[name] = answer.status_code, answer.text
        await asyncio.sleep(0.01)


async def _more(answers: dict[str, tuple[int, str]], than: int) -> bool:
    return len(answers) >= than


@pytest.mark.stress
async def test_sweeps_that_fail_beside_each_other_are_told_once(database: Database) -> None:
    """Four schedulers, in which every sweep fails and works again: one event for each change, on an unbroken chain."""
    schedulers = [scheduler_of(database) for _ in range(4)]
    dice = random.Random(11)

    async def fails(_: Database) -> int:
        raise ZeroDivisionError

    async def works(_: Database) -> int:
        return 0

    for _ in counted(range(full(20))):
        for outcome, runs in ((fails, KEEPS_FAILING), (works, 1)):
            for _ in range(runs):
                each = [(scheduler, name) for scheduler in schedulers for name in SWEEPS]
                dice.shuffle(each)
                await asyncio.gather(*(scheduler._run(name, outcome) for scheduler, name in each))
            assert set(await failing_sweeps.list_failing(database)) == (
                set(SWEEPS) if outcome is fails else set()
            )
    _, problems = await audit.find_problems(database)
    assert problems == []
