"""The weekly message to operators: sent once, of a whole week, with each number's whole and page."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from agent.domain.checkpoints import load
from agent.store.ids import new_id
from agent.usecases import requests, week
from tests.integration import alone
from tests.integration.asking import LINUS, ask, ballot, blocked, reviewer, write
from tests.integration.granting import allow
from tests.integration.test_delivery import Office, office  # noqa: F401
from tests.integration.test_observing import ADMIN, judge
from tests.integration.test_settling import doubt_of_two

POLICY = """
[[checkpoint]]
checkpoint_id = "huge"
action_pattern = "process_refund"
when = "args.amount > 1000"

[[checkpoint]]
checkpoint_id = "never"
action_pattern = "process_refund"
when = "args.amount > 10000"
verdict = "deny"

[[checkpoint]]
checkpoint_id = "unused"
action_pattern = "drop_*"
"""
_LAST_WEEK = """
UPDATE approval_request SET decided_at = decided_at - interval '7 days';
UPDATE judgement SET created_at = created_at - interval '7 days';
UPDATE execution SET started_at = started_at - interval '7 days'
"""


@pytest.fixture
async def last_week(office: Office, owner: psycopg.Connection[object]) -> Office:  # noqa: F811
    """What happened today, seven days ago: outcomes, votes, attempts, evaluations."""
    office.open_admin_channel()
    office.drains[0] = office.drain(admin=ADMIN, inbox="https://signoff.example/inbox")
    db, policy = office.db, load(POLICY, filename="c.toml")
    expired, rejected = await ask(db), await ask(db)
    await write(
        db, "UPDATE approval_request SET expires_at = clock_timestamp() WHERE id = :id", id=expired.request_id
    )
    await requests.expire_due(db)
    await alone.vote(db, ballot(rejected, reviewer(LINUS), "reject"))
    await doubt_of_two(db)
    await allow(db)
    await judge(db, policy, 50, 5000)
    owner.execute(
        "INSERT INTO policy VALUES (1, %s, %s, 'cli:ada', NULL, now() - interval '30 days')",
        [policy.source, policy.digest],
    )
    owner.execute(
        "INSERT INTO judgement (id, policy_epoch, agent, tool, traits, facts_failed, verdict, checkpoint_id, because)"
        " VALUES (%s, 1, 'refunds', 'process_refund', '{}', false, 'deny', 'never', '')",
        [new_id()],  # ids begin with their time, by which the week is found
    )
    with owner.transaction():
        owner.execute("SET LOCAL session_replication_role = replica")  # outcomes are final for everybody else
        owner.execute(_LAST_WEEK)
    return office


async def test_operators_read_the_week_once(last_week: Office, owner: psycopg.Connection[object]) -> None:
    """One message for the last whole week, also if several processes found it untold at the same moment: each number
    with its whole and its page.
    """
    policy = load(POLICY, filename="c.toml")
    with psycopg.connect(owner.info.dsn) as holder:
        holder.execute("LOCK TABLE told_week IN SHARE MODE")  # it can be read, not written
        looks = [asyncio.create_task(week.report_week(last_week.db, policy, ADMIN)) for _ in range(4)]
        await blocked(owner, 4)
    assert sorted(await asyncio.gather(*looks)) == [0, 0, 0, 1]
    assert await week.report_week(last_week.db, policy, ADMIN) == 0
    messages = await last_week.operator_messages()
    (shown,) = (each for each in messages if "The week from" in each)
    for title, words, page in (
        ("Waiting now, by age", "under 5 min: 1; 1 in all", "/history?status=waiting"),
        ("Expired", "1 of 5 (20 %) requests that ended", "/history?status=expired"),
        ("In doubt", "1 of 2 (50 %) attempts that began; 1 call waits", "/history?status=in_doubt"),
        ("Decided without opening Details", "5 of 5 (100 %) votes", "/reports?days=7&last="),
        ("Grants that end within 7 days", "1 of 1 (100 %) in force", "/grants"),
        ("Denied by policy", "(never: 1)", "#policy"),
        ("Checkpoints that caught nothing", "1 of 3 (33 %): unused", "#policy"),
    ):
        about = shown.partition(title)[2].partition("rich_text_section")[0]
        assert words in about, (title, about)
        assert page in about.partition("https://signoff.example/inbox")[2]
    assert "Observed" not in shown


async def test_a_week_of_nothing_is_not_told(office: Office) -> None:  # noqa: F811
    """Without anything to say there is no message, and nobody looks again."""
    assert await week.report_week(office.db, load("", filename="c.toml"), ADMIN) == 0
    assert await office.column("SELECT count(*) FROM delivery") == [0]
    assert await office.column("SELECT count(*) FROM told_week") == [1]
