"""Two processes and one event: what Slack says has changed counts in both, and operators read of it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from agent.runtime.agents import Agent
from agent.store.outbox import Destination
from signoff.values import Person
from slackbot.app import Service
from slackbot.slack_api.directory import Directory
from tests.integration.asking import ask, rule
from tests.integration.service.conftest import POLICY, House, until

GRACE = Person("T0SANDBOX", "U0GRACE")
ADMIN = POLICY.replace("[defaults]", '[defaults]\nadmin_channel = "C0AGENTS"')
AGENTS = [Agent("data", "You manage data.", [])]
APPROVERS = ["S0FINANCE"]


def directory_of(service: Service) -> Directory:
    assert service.slack.parts is not None
    return service.slack.parts.connection.directory


async def has_role(service: Service) -> bool:
    return bool((await directory_of(service).standing(GRACE, APPROVERS, "C0REVIEW")).roles)


LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%directory%'"
Owner = psycopg.Connection[Any]


async def hears(owner: Owner, number: int) -> None:
    """So many processes listen."""

    async def all_listen() -> bool:
        return owner.execute(f"SELECT count(*) {LISTENERS}").fetchone() == (number,)

    await until(all_listen)


async def test_a_removed_reviewer_is_refused_by_every_process(http_house: House, owner: Owner) -> None:
    """The event reaches one process, and each of them forgets who was in the group, long before a minute is over."""
    services = [await http_house.open(AGENTS) for _ in range(2)]
    await hears(owner, 2)
    assert [await has_role(each) for each in services] == [True, True]
    http_house.slack.workspace.change_usergroup("S0FINANCE", ["U0LINUS"])

    async def refused_by_both() -> bool:
        return [await has_role(each) for each in services] == [False, False]

    await until(refused_by_both, seconds=20.0)


async def test_what_was_missed_is_forgotten(http_house: House, owner: Owner) -> None:
    """A process whose listening connection was cut forgets everything once it listens again."""
    service = await http_house.open(AGENTS)
    await hears(owner, 1)
    assert await has_role(service)
    http_house.slack.workspace.usergroups["S0FINANCE"].users.remove("U0GRACE")
    owner.execute(f"SELECT pg_terminate_backend(pid) {LISTENERS}")

    async def refused() -> bool:
        return not await has_role(service)

    await until(refused, seconds=20.0)


async def test_a_stopping_process_hears_until_its_last_vote(http_house: House, owner: Owner) -> None:
    """While a process that stops still counts votes, a reviewer who is removed meanwhile counts there no longer."""
    stopping = await http_house.open(AGENTS, SIGNOFF_PRE_STOP_SECONDS="600")
    await http_house.open(AGENTS)
    await hears(owner, 2)
    assert await has_role(stopping)
    leaving = asyncio.create_task(stopping.stop())

    async def delivers_no_more() -> bool:
        return not stopping.slack.delivers

    async def refused() -> bool:
        return not await has_role(stopping)

    try:
        await until(delivers_no_more)
        http_house.slack.workspace.change_usergroup("S0FINANCE", ["U0LINUS"])
        await until(refused, seconds=20.0)
        assert not leaving.done()
    finally:
        leaving.cancel()
        stopping.settings = stopping.settings.model_copy(update={"pre_stop_seconds": 0.0})


async def test_an_emptied_group_is_reported_at_once(http_house: House) -> None:
    """The event of an emptied reviewers' group is enough for operators to read of the request that waits for it."""
    await http_house.open(AGENTS, ADMIN)
    await ask(http_house.db, rule(), destination=Destination("T0SANDBOX", "C0REVIEW"))
    await http_house.card()
    assert not any("Too few reviewers" in str(each) for each in http_house.slack.messages("C0AGENTS"))
    http_house.slack.workspace.change_usergroup("S0FINANCE", [])
    assert "Refund 1500 for order 0" in await http_house.says("Too few reviewers can still approve")
