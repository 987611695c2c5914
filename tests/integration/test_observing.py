"""Checkpoints that are only observed: counted with each judgement, told once a week, shown by a command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.checkpoints import load
from agent.domain.judgement import ToolTraits
from agent.domain.policy import Policy
from agent.store import observations as stored
from agent.store.outbox import Destination
from agent.usecases import policy as policies
from agent.usecases import requests, runs, week
from signoff.values import Action
from slackbot.cli import cli_context, terminal
from tests.integration import alone
from tests.integration.asking import TEAM, column, question, start
from tests.integration.command import CHECKPOINTS, Command
from tests.integration.test_delivery import Office, office  # noqa: F401

ADMIN = Destination(TEAM, "C0ADMIN")
BIG = """
[[checkpoint]]
checkpoint_id = "big"
action_pattern = "process_refund"
when = "args.amount > 100"
redact = ["iban"]
mode = "observe"
observe_until = {until}
"""
HUGE = """
[[checkpoint]]
checkpoint_id = "huge"
action_pattern = "process_refund"
when = "args.amount > 1000"
"""


def observing(until: datetime, others: str = HUGE) -> Policy:
    """A policy with one checkpoint that asks about huge amounts, and one that is observed."""
    return load(others + BIG.format(until=until.isoformat()), filename="c.toml")


async def judge(db: Database, policy: Policy, *amounts: int) -> None:
    """Let a run propose a refund of each amount, and judge it."""
    run_id, calls = await start(db, calls=len(amounts))
    epoch = await policies.epoch_in_force(db)
    for call, amount in zip(calls, amounts, strict=True):
        arguments = {"amount": amount, "iban": "DE0012345678", "password": "hunter2", "n": str(call)}
        action, traits = Action("process_refund", "1", arguments), ToolTraits("process_refund", "1")
        judged = policy.judge(traits, action, None, "refunds", "U0ADA")
        if judged.rule is None:
            await runs.pass_call(db, call, action, policy_epoch=epoch)
            claim: dict[str, Any] = {
                "worker": "w",
                "idempotent": False,
                "policy_epoch": epoch,
                "judgement": judged,
            }
            assert await alone.claim(db, call, **claim) is not None
        else:
            new = question(run_id, call, judged.rule, action=action, judgement=judged, policy_epoch=epoch)
            await requests.open(db, new)


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def test_each_judgement_keeps_what_was_observed(database: Database) -> None:
    """Of calls that ran and of calls that were asked; without an observed checkpoint nothing is kept."""
    await judge(database, observing(soon()), 50, 500, 5000)
    await judge(database, load(HUGE, filename="c.toml"), 50)
    async with database.connection() as connection:
        since = datetime.now(UTC) - timedelta(hours=1)
        (count,) = await stored.counts(connection, since)
        examples = await stored.examples(connection, since, 5)
    assert (count.checkpoint_id, count.judged, count.asks, count.asked_anyway, count.frees) == (
        "big",
        3,
        2,
        1,
        0,
    )
    assert [each.action.arguments["amount"] for each in examples] == [5000, 500]
    assert [(each.verdict, each.request_id is None) for each in examples] == [("ask", False), ("run", True)]
    assert await column(database, "SELECT count(*) FROM judgement WHERE observed IS NULL") == [1]


async def test_after_its_end_nothing_is_counted(database: Database) -> None:
    """By the clock of the database, also where a process still has the policy of before."""
    await judge(database, observing(datetime.now(UTC) - timedelta(seconds=1)), 500)
    assert await column(database, "SELECT count(*) FROM judgement WHERE observed IS NOT NULL") == [0]


@pytest.mark.parametrize(("ahead", "counted"), [("2 h", 0), ("-2 h", 1)])
async def test_a_process_with_a_wrong_clock_changes_no_end(
    database_url: str, owner: psycopg.Connection[Any], ahead: str, counted: int
) -> None:
    """It neither extends nor shortens an observation: the clock of the database, here hours apart, decides."""
    until = datetime.now(UTC) + timedelta(hours=1 if counted == 0 else -1)
    with clocks_apart(owner, ahead):
        async with Apart(database_url) as db:
            await judge(db, observing(until), 5000)
            assert await column(db, "SELECT count(*) FROM judgement WHERE observed IS NOT NULL") == [counted]


@contextmanager
def clocks_apart(owner: psycopg.Connection[Any], ahead: str) -> Iterator[None]:
    """The clock that `Apart` reads, ahead of the one of this process."""
    owner.execute("CREATE SCHEMA apart")
    owner.execute("GRANT USAGE ON SCHEMA apart TO signoff_app")
    owner.execute(
        "CREATE FUNCTION apart.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
        f" $$ SELECT pg_catalog.clock_timestamp() + interval '{ahead}' $$"
    )
    try:
        yield
    finally:
        owner.execute("DROP SCHEMA apart CASCADE")


class Apart(Database):
    """The database with another clock than this process."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with super().transaction() as tx:
            await tx.execute(text("SET LOCAL search_path = apart, pg_catalog, signoff"))
            yield tx

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        async with super().connection() as connection:
            await connection.execute(text("SET search_path = apart, pg_catalog, signoff"))
            yield connection


@pytest.mark.parametrize(("ahead", "is_applied"), [("2 h", True), ("-2 h", False)])
def test_the_clock_of_the_database_bounds_what_is_applied(
    signoff: Command, owner: psycopg.Connection[Any], tmp_path: Path, ahead: str, is_applied: bool
) -> None:
    """`policy apply` counts the 30 days from the database's time, whatever the operator's clock says."""
    until = datetime.now(UTC) + timedelta(days=30, hours=1 if is_applied else -1)
    file = tmp_path / "observing.toml"
    file.write_text(CHECKPOINTS + BIG.format(until=until.isoformat()))
    with clocks_apart(owner, ahead), signoff.monkeypatch.context() as patched:
        patched.setattr(cli_context, "Database", Apart)
        said = signoff("policy", "apply", str(file), SLACK_BOT_TOKEN=None).said
    assert ("policy 1 is in force" in said) is is_applied
    assert ('"observe_until" must be at most 30 days ahead' in said) is not is_applied
    assert ("no policy is in force yet" in signoff("policy", "history").said) is not is_applied


async def test_what_a_checkpoint_would_free_is_counted(
    database: Database, owner: psycopg.Connection[Any]
) -> None:
    """Calls that are asked for want of a checkpoint, and not those that something beside the checkpoints asks about."""
    await judge(database, observing(soon(), others=""), 50, 500)
    since = datetime.now(UTC) - timedelta(hours=1)
    (count,) = await database.read(stored.counts, since)
    assert (count.judged, count.asks, count.asked_anyway, count.frees) == (2, 1, 1, 1)
    owner.execute("UPDATE judgement SET ruled = 'run'")  # a limit has made it an ask
    (count,) = await database.read(stored.counts, since)
    assert count.frees == 0


async def test_operators_are_told_once_a_week(office: Office, owner: psycopg.Connection[Any]) -> None:  # noqa: F811
    """One message for the last whole week, however many schedulers look, with what was observed."""
    office.open_admin_channel()
    db, policy = office.db, observing(soon())
    assert await week.report_week(db, policy, None) == 0
    await judge(db, policy, 50, 500, 5000)
    owner.execute("UPDATE judgement SET created_at = created_at - interval '7 days'")
    await judge(db, policy, 500)  # this week
    looks = [week.report_week(db, policy, ADMIN) for _ in range(4)]
    assert sorted(await asyncio.gather(*looks)) == [0, 0, 0, 1]
    (message,) = await office.operator_messages()
    assert "would have asked 2 of 3 calls, of which 1 were asked anyway" in message
    owner.execute("DELETE FROM told_week")
    owner.execute("UPDATE judgement SET created_at = created_at - interval '14 days'")
    assert await week.report_week(db, policy, ADMIN) == 1
    assert "Observed checkpoints" not in (await office.operator_messages())[-1]


async def test_a_checkpoint_that_judged_nothing_is_told_of(
    office: Office,  # noqa: F811
    owner: psycopg.Connection[Any],
) -> None:
    """It stood in the policy all week: its author learns that no call was like it."""
    office.open_admin_channel()
    policy = observing(soon())
    sql = "INSERT INTO policy VALUES (1, %s, %s, 'cli:ada', NULL, now() - interval '30 days')"
    owner.execute(sql, [policy.source, policy.digest])
    assert await week.report_week(office.db, policy, ADMIN) == 1  # this process has another policy
    owner.execute("DELETE FROM told_week")
    assert await week.report_week(office.db, replace(policy, epoch=1), ADMIN) == 1
    first, message = await office.operator_messages()
    assert "big" not in first
    assert "big: would have asked 0 of 0 calls" in message


def test_the_command_counts_and_shows_masked_examples(
    signoff: Command, database_url: str, tmp_path: Path
) -> None:
    """Per checkpoint: judged, would ask, asked anyway; examples without what `redact` or a secret's name hides."""
    assert "no observed checkpoint" in signoff("policy", "observed").said
    file = tmp_path / "observing.toml"
    until = soon().replace(microsecond=0)
    file.write_text(CHECKPOINTS + HUGE + BIG.format(until=until.isoformat()))
    assert "policy 1 is in force" in signoff("policy", "apply", str(file), SLACK_BOT_TOKEN=None).said
    assert "│ big        │ 0 " in signoff("policy", "observed").said

    async def work() -> None:
        async with Database(database_url) as db:
            await judge(db, replace(load(file.read_text(), filename="c.toml"), epoch=1), 50, 500, 5000)

    asyncio.run(work())
    said = signoff("policy", "observed").said
    assert "│ big        │ 3         │ 2         │ 1            │ 0 " in said
    assert "(was asked anyway, request " in said
    assert "amount: 500" in said
    assert "(ran)" in said
    assert "DE0012345678" not in said
    assert "hunter2" not in said
    (line,) = signoff("policy", "observed", "--json").said.splitlines()
    assert json.loads(line) | {"first": None, "last": None} == {
        "checkpoint_id": "big",
        "in_force": True,
        "evaluated": 3,
        "would_ask": 2,
        "asked_anyway": 1,
        "would_run": 0,
        "first": None,
        "last": None,
        "observe_until": until.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    refund = ("check", "explain", "--policy", str(file), "--action", "process_refund", "--arg", "amount=500")
    said = signoff(*refund).said
    assert "verdict: run" in said
    assert "If it were in force, the verdict would be ask" in said
    replayed = signoff("check", "replay", "--policy", str(file)).said
    assert "observed big: would have asked 2 of 3 calls, of which 1 were asked anyway" in replayed


def test_the_command_and_a_replay_count_what_a_checkpoint_would_free(
    signoff: Command, database_url: str, owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """What is asked for want of a checkpoint would run with it; the command also shows when the first and last were."""
    until = soon().replace(microsecond=0)
    file, gone = tmp_path / "observing.toml", tmp_path / "gone.toml"
    file.write_text(CHECKPOINTS + BIG.format(until=until.isoformat()))
    gone.write_text(CHECKPOINTS)
    signoff("policy", "apply", str(file), SLACK_BOT_TOKEN=None)

    async def work() -> None:
        async with Database(database_url) as db:
            policy = replace(load(file.read_text(), filename="c.toml"), epoch=1)
            for amounts in ((50, 60), (500,)):
                await judge(db, policy, *amounts)
                owner.execute("UPDATE judgement SET created_at = created_at - interval '1 day'")

    asyncio.run(work())
    evaluated = owner.execute("SELECT created_at FROM judgement ORDER BY created_at").fetchall()
    [first], [last] = evaluated[0], evaluated[-1]
    (line,) = signoff("policy", "observed", "--json").said.splitlines()
    counts = json.loads(line)
    assert [counts[each] for each in ("evaluated", "would_ask", "asked_anyway", "would_run")] == [3, 1, 1, 2]
    assert [datetime.fromisoformat(counts[each]) for each in ("first", "last")] == [first, last]
    row = f"│ big        │ 3         │ 1         │ 1            │ 2         │ {terminal.when(first)} │ "
    assert f"{row}{terminal.when(until)} │" in signoff("policy", "observed").said
    assert (
        "observed big: would have asked 1 of 3 calls, of which 1 were asked anyway; "
        "2 that were asked would run without a person"
    ) in signoff("check", "replay", "--policy", str(file)).said
    signoff("policy", "apply", str(gone), SLACK_BOT_TOKEN=None)
    assert f"{row}{terminal.when(last)} (not in force) │" in signoff("policy", "observed").said


def test_the_command_lists_by_checkpoint_and_the_text_in_force_last(
    signoff: Command, database_url: str, tmp_path: Path
) -> None:
    """By name, whatever was evaluated last; the counts of a changed checkpoint stand together, the latest last."""
    until = soon().replace(microsecond=0).isoformat()
    big = BIG.format(until=until)
    other = big.replace('"big"', '"all"').replace("100", "0")
    texts = [CHECKPOINTS + big.replace("100", str(least)) + other for least in (100, 200, 300)]
    file = tmp_path / "observing.toml"

    async def work(terms: str, epoch: int) -> None:
        async with Database(database_url) as db:
            await judge(db, replace(load(terms, filename="c.toml"), epoch=epoch), *[500] * epoch)

    for epoch, terms in enumerate(texts, 1):
        file.write_text(terms)
        signoff("policy", "apply", str(file), SLACK_BOT_TOKEN=None)
        asyncio.run(work(terms, epoch))
    listed = [json.loads(line) for line in signoff("policy", "observed", "--json").said.splitlines()]
    shown = [(each["checkpoint_id"], each["evaluated"], each["in_force"]) for each in listed]
    assert shown == [("all", 6, True), ("big", 1, False), ("big", 2, False), ("big", 3, True)]


def test_check_names_what_is_not_observed_any_more(signoff: Command, tmp_path: Path) -> None:
    """After `observe_until` the file still loads, and `check` says that the checkpoint does nothing."""
    (signoff.folder / "checkpoints.toml").write_text(CHECKPOINTS + BIG.format(until="2026-01-01"))
    said = 'checkpoints.toml:12: checkpoint "big": does nothing, it was observed until 2026-01-01 00:00 UTC'
    assert said in signoff("check").said
    far = CHECKPOINTS + BIG.format(until=(soon() + timedelta(days=31)).isoformat())
    (signoff.folder / "checkpoints.toml").write_text(far)
    (wrong,) = signoff.is_wrong("check")
    assert wrong.endswith('checkpoint "big": "observe_until" must be at most 30 days ahead')
