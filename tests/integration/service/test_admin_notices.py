"""Operators read in their channel who changed policy, pauses and keys, and what changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.api_keys import Scope
from agent.domain.policy import Policy
from agent.runtime.agents import Agent
from agent.store import admin_channel
from agent.store.outbox import Destination
from agent.usecases import admin_notices, api_keys, pause
from agent.usecases import policy as policies
from signoff.values import Person
from tests.integration.asking import blocked, column
from tests.integration.service.conftest import POLICY, House

ADMIN = POLICY.replace("[defaults]", '[defaults]\nadmin_channel = "#agents"')
CHANNEL = "C0AGENTS"
ADA = Person("T0SIGNOFF", "U0ADA")


def policy(source: str) -> Policy:
    return checkpoints.load(source, filename="checkpoints.toml")


async def messages(house: House) -> list[str]:
    """What the channel shows, oldest first."""
    return [str(each["blocks"]) for each in house.slack.messages(CHANNEL)]


async def test_operators_read_each_change_with_its_author(http_house: House) -> None:
    """The channel's first message is what the policy is; a policy, a pause and a key each follow with author and
    difference, though the command that made them knows only the channel's name.
    """
    agents = [Agent("data", "You manage data.", [])]
    await http_house.open(agents, ADMIN)
    await http_house.open(agents, ADMIN)
    await http_house.says("added: checkpoint deletions", CHANNEL)

    stricter = ADMIN + "approvals_required = 2\n"
    first = await policies.apply(http_house.db, policy(stricter), by="cli:ada")
    shown = await http_house.says("changed: checkpoint deletions: approvals_required not set → 2", CHANNEL)
    assert " by cli:ada" in shown
    now, wanted = await policies.earlier(http_house.db)
    await policies.restore(http_house.db, now, wanted, wanted.digest, by="cli:grace")
    shown = await http_house.says("approvals_required 2 → not set", CHANNEL)
    assert "cli:grace" in shown
    assert "which brings back" in shown
    await policies.apply(http_house.db, replace(policy(ADMIN), epoch=first.epoch), by="cli:ada")  # no change

    answer = await http_house.slack.person("U0ADA").command("/agent", "pause data odd numbers", "C0REVIEW")
    assert answer.error is None
    shown = await http_house.says("Paused: nothing of this agent begins", CHANNEL)
    assert all(words in shown for words in ("U0ADA", "data", "odd numbers"))
    await pause.pause(http_house.db, None, by="cli:ada")
    await pause.pause(http_house.db, None, by="cli:ada")  # no change
    await http_house.says("All agents paused", CHANNEL)
    await pause.resume(http_house.db, "data", by="cli:ada")
    await http_house.says("The pause of this agent has ended", CHANNEL)

    secret = await api_keys.create(
        http_house.db, "crm", [Scope.REQUEST, Scope.FACTS], by="cli:ada", owner=ADA
    )
    shown = await http_house.says("An API key was created", CHANNEL)
    assert all(
        words in shown for words in ("cli:ada", "crm", "facts, request", "owner: U0ADA", "expires: never")
    )
    again = await api_keys.rotate(http_house.db, "crm", by="cli:grace")
    assert "no longer valid" in await http_house.says("An API key has a new secret", CHANNEL)
    await api_keys.revoke(http_house.db, "crm", by="cli:grace")
    await http_house.says("An API key was revoked", CHANNEL)
    said = await messages(http_house)
    assert not any(part in str(said) for part in (secret, again, secret[:13]))
    await http_house.shows("SELECT count(*) FROM delivery WHERE kind = 'direct' AND state = 'pending'", 0)
    assert await http_house.column("SELECT count(*) FROM delivery WHERE kind = 'direct'") == [9]


@pytest.mark.parametrize(
    ("table", "check"),
    [("audit_event", "actor <> 'cli:eve'"), ("delivery", "body ->> 'by' IS DISTINCT FROM 'cli:eve'")],
)
async def test_a_change_and_its_notice_are_stored_together_or_not_at_all(
    http_house: House, owner: psycopg.Connection[object], table: str, check: LiteralString
) -> None:
    """A change that cannot be stored is not told, and one whose notice cannot be stored is not made."""
    await http_house.open([], ADMIN)
    await http_house.says("added: checkpoint deletions", CHANNEL)
    named = sql.Identifier(table)
    owner.execute(
        sql.SQL("ALTER TABLE {} ADD CONSTRAINT not_eve CHECK ({}) NOT VALID").format(named, sql.SQL(check))
    )
    try:
        for change in (
            pause.pause(http_house.db, None, by="cli:eve"),
            policies.apply(http_house.db, policy(POLICY), by="cli:eve"),
            api_keys.create(http_house.db, "crm", [Scope.ADMIN], by="cli:eve"),
        ):
            with pytest.raises(psycopg.errors.CheckViolation):
                await change
    finally:
        owner.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT not_eve").format(named))
    for made in (
        "SELECT count(*) FROM delivery WHERE body ->> 'by' = 'cli:eve'",
        "SELECT count(*) FROM audit_event WHERE actor = 'cli:eve'",
        "SELECT count(*) FROM pause",
        "SELECT count(*) FROM policy WHERE by = 'cli:eve'",
        "SELECT count(*) FROM api_key",
    ):
        assert await http_house.column(made) == [0], made
    await pause.pause(http_house.db, None, by="cli:eve")
    assert await http_house.column("SELECT count(*) FROM delivery WHERE body ->> 'by' = 'cli:eve'") == [1]


async def test_a_policy_moves_the_channel(http_house: House) -> None:
    """Those who read the old channel learn of the change that ends it; the new one begins with that change."""
    await http_house.open([], ADMIN)
    await http_house.says("added: checkpoint deletions", CHANNEL)
    moved = ADMIN.replace("#agents", "C0REVIEW")
    await policies.apply(http_house.db, policy(moved), by="cli:ada")
    for channel in (CHANNEL, "C0REVIEW"):
        assert "→" in await http_house.says("changed: [defaults]: admin_channel", channel)
    await policies.apply(http_house.db, policy(POLICY), by="cli:ada")
    await http_house.says('admin_channel "C0REVIEW" → not set', "C0REVIEW")
    await http_house.shows("SELECT channel_id FROM admin_channel", None)
    await pause.pause(http_house.db, None, by="cli:ada")
    assert await http_house.column("SELECT count(*) FROM delivery WHERE body ->> 'line' = 'paused_all'") == [
        0
    ]


async def test_the_channel_of_the_latest_policy_is_kept(
    database: Database, owner: psycopg.Connection[object]
) -> None:
    """However many processes follow at once, one notices that the channel is new; a late one changes nothing."""
    stored = await policies.apply(database, policy(ADMIN), by="cli:ada")
    await policies.apply(database, policy(POLICY), by="cli:ada")
    here, late = Destination("T0SIGNOFF", "C0HERE"), Destination("T0SIGNOFF", "C0LATE")
    await admin_notices.follow(database, stored.epoch, None)
    with psycopg.connect(owner.info.dsn) as holder:
        holder.execute("SELECT FROM admin_channel FOR UPDATE")
        following = [asyncio.create_task(admin_notices.follow(database, 2, here)) for _ in range(2)]
        await blocked(owner, 2)
    await asyncio.gather(*following)
    await admin_notices.follow(database, stored.epoch, late)
    assert await database.read(admin_channel.find) == here
    assert await column(database, "SELECT channel_id FROM delivery WHERE kind = 'direct'") == ["C0HERE"]
