"""Every sweep that the scheduler knows does its work once, and one that keeps failing is told to operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.domain.schedules import NewSchedule
from agent.usecases import api_keys, failing_sweeps, schedules, webhooks
from slackbot.app import Service
from slackbot.delivery.deleted_cards import find_deleted_cards
from slackbot.service.scheduled_starts import ScheduledStarts
from slackbot.service.scheduler import KEEPS_FAILING, Scheduler
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.connection import SlackConnection
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.permalinks import Permalinks
from tests.integration.asking import ADA, REVIEWS, TEAM, ask, column, rows, write
from tests.integration.command import Command
from tests.integration.crash.test_health import says
from tests.integration.listeners.conftest import services
from tests.integration.service.conftest import House, http_house  # noqa: F401
from tests.integration.test_doctor import Clinic, clinic  # noqa: F401
from tests.integration.test_observing import judge, observing, soon
from tests.integration.test_scheduler import expire, lapse, orphans, remind, rescue
from tests.integration.test_sent_messages import AGE
from tests.integration.web.receiver import LOOPBACK
from tests.integration.web.test_service_metrics import samples

MakeDue = Callable[[Database], Awaitable[object]]


def scheduler_of(db: Database) -> Scheduler:
    """As the service makes it; Slack, which none of these needs, is away."""
    client = SlackClient("xoxb-none", "http://127.0.0.1:9/api/")
    connection = SlackConnection(TEAM, Directory(client, TEAM, "U0BOT"), client, Permalinks(client))
    starts = ScheduledStarts(services(db), lambda: connection)
    policy = observing(soon())
    look = partial(find_deleted_cards, client=client, team_id=TEAM, own_bot_user_id="U0BOT")
    return Scheduler(
        db, policy, lambda: REVIEWS, due={"schedules": starts.sweep}, timed={"deleted_cards": (look, 60.0)}
    )


async def put_off(db: Database) -> None:
    """Ten minutes of rest have become hours, for channels that a drain holds and for those that none holds."""
    await ask(db)
    await write(db, "UPDATE delivery SET not_before = clock_timestamp() + interval '5 hours'")
    await write(
        db,
        """INSERT INTO outlet (team_id, channel_id, next_at, next_update_at, lease_worker, lease_until)
           SELECT 'T0SIGNOFF', name, at, at, worker, CASE WHEN worker IS NOT NULL THEN at END
           FROM (VALUES ('C0HELD', 'dead'), ('C0FREE', NULL)) AS held (name, worker),
                (SELECT clock_timestamp() + interval '5 hours' AS at) AS t""",
    )


async def reply(db: Database) -> None:
    await write(
        db,
        """INSERT INTO http_reply (principal, key, fingerprint, created_at)
           VALUES ('ci', 'k', sha256(''), clock_timestamp() - interval '2 days')""",
    )


async def key_use(db: Database) -> None:
    await api_keys.authenticate(db, await api_keys.create(db, "ci", [Scope.REQUEST], by="test", owner=ADA))
    await write(db, "UPDATE key_use SET minute = minute - interval '10 minutes'")


async def ended_use(db: Database) -> None:
    await write(
        db,
        """INSERT INTO limit_use (limit_name, key, subject, amount, settled)
           VALUES ('refunds', gen_random_uuid(), 'all', 1, false)""",
    )


async def old_notice(db: Database) -> None:
    await webhooks.add(db, "ops", "http://127.0.0.1/", by="test", allowed=LOOPBACK)
    await ask(db)
    await write(db, "UPDATE notice SET state = 'sent', sent_at = created_at")
    await write(db, AGE.replace("delivery", "notice"))


async def old_message(db: Database) -> None:
    await ask(db)
    await write(db, "UPDATE delivery SET state = 'sent'")
    await write(db, AGE)


async def folded(db: Database) -> None:
    await ask(db)
    await write(db, "UPDATE card_place SET folded = true")
    await write(db, "INSERT INTO digest_card VALUES ('T0SIGNOFF', 'C0REVIEW', 'refunds', '1.0')")


async def old_card(db: Database) -> None:
    await ask(db)
    await write(db, "UPDATE card_place SET ts = '1.0', look_at = clock_timestamp()")


async def observed(db: Database) -> None:
    """A week ago, which only the owner can make of it."""
    await judge(db, observing(soon()), 50, 500)
    async with db.transaction() as tx:
        await tx.execute(text("SET LOCAL ROLE NONE"))
        await tx.execute(text("UPDATE judgement SET created_at = created_at - interval '7 days'"))


async def schedule(db: Database) -> None:
    new = NewSchedule("refunds", "the week", "0 9 * * 1", "Europe/Berlin", ADA)
    await schedules.add(db, new, by="cli:test")
    await write(db, "UPDATE schedule SET next_at = clock_timestamp() - interval '2 h', grace_seconds = 0")


async def failed_elsewhere(db: Database) -> None:
    await failing_sweeps.note_failing(db, "a sweep of an older version", "CheckViolation")


async def metric(service: Service, name: str) -> float:
    async with httpx.AsyncClient(verify=False) as client:
        return samples((await client.get(f"http://127.0.0.1:{service.port}/metrics")).text)[name]


CASES: Mapping[str, tuple[MakeDue, str]] = {
    "look": (expire, "approval_request WHERE status = 'waiting'"),
    "expire": (expire, "approval_request WHERE status = 'waiting'"),
    "remind": (remind, "approval_request WHERE remind_next <= clock_timestamp()"),
    "rescue": (rescue, "execution WHERE status = 'claimed'"),
    "lapse": (lapse, "tool_call WHERE lapse_at <= clock_timestamp()"),
    "orphans": (orphans, "agent_run WHERE parent_run_id IS NOT NULL AND status = 'working'"),
    "search": (ask, "search_due"),
    "schedules": (schedule, "schedule WHERE next_at <= clock_timestamp()"),
    "pauses": (
        put_off,
        """(SELECT not_before AS at FROM delivery UNION ALL SELECT next_at FROM outlet
            UNION ALL SELECT next_update_at FROM outlet
            UNION ALL SELECT lease_until + interval '9 minutes' FROM outlet) AS t
           WHERE at > clock_timestamp() + interval '10 minutes'""",
    ),
    "replies": (reply, "http_reply"),
    "key_uses": (key_use, "key_use"),
    "limits": (ended_use, "limit_use WHERE NOT settled"),
    "forget_notices": (old_notice, "notice"),
    "forget_messages": (old_message, "delivery"),
    "unfold": (folded, "card_place WHERE folded"),
    "deleted_cards": (old_card, "card_place WHERE look_at <= clock_timestamp()"),
    "week": (observed, "judgement WHERE NOT EXISTS (SELECT 1 FROM delivery WHERE kind = 'direct')"),
    "recovered": (
        failed_elsewhere,
        """audit_head AS h JOIN audit_event AS e ON e.subject = h.subject AND e.seq = h.seq
           WHERE h.subject = 'sweeps' AND e.detail ->> 'failing' <> '{}'""",
    ),
}
"""For each sweep, how its work becomes due, and the rows that are due."""

SWEEPS = sorted(scheduler_of(Database("postgresql://nobody@127.0.0.1:1/nowhere")).sweeps)
"""Those that the scheduler knows: one without a case fails."""


@pytest.mark.parametrize("name", SWEEPS)
async def test_every_sweep_does_its_work(database: Database, name: str) -> None:
    """Work that is due is done by one run of its sweep, without a failure."""
    make_due, due = CASES[name]
    await make_due(database)
    count = f"SELECT count(*) FROM {due}"
    assert await column(database, count) != [0]
    scheduler = scheduler_of(database)
    with capture_logs() as logs:
        await scheduler._run(name, scheduler.sweeps[name])
        await asyncio.gather(*scheduler._sweeping.values())
    assert [each for each in logs if each.get("action") == "sweep.failed"] == []
    assert await column(database, count) == [0]


def test_every_case_is_a_sweep() -> None:
    """No case is left of a sweep that is gone."""
    assert sorted(CASES) == SWEEPS


async def test_a_free_channel_stays_free(database: Database) -> None:
    """A channel that nobody holds gets its next card within ten minutes, and a dead drain's one as soon as before."""
    await put_off(database)
    scheduler = scheduler_of(database)
    await scheduler._run("pauses", scheduler.sweeps["pauses"])
    free, held = await rows(database, "SELECT lease_until, lease_worker FROM outlet ORDER BY channel_id")
    assert (free, held[1]) == ((None, None), "dead")
    assert await column(
        database, "SELECT max(lease_until) <= clock_timestamp() + interval '10 s' FROM outlet"
    ) == [True]


BREAK = """
CREATE FUNCTION signoff.broken() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE check_violation USING MESSAGE = 'it is broken'; END $$;
CREATE TRIGGER broken BEFORE INSERT ON signoff.request_search FOR EACH ROW EXECUTE FUNCTION signoff.broken();
"""
MEND = "DROP TRIGGER broken ON signoff.request_search"


async def test_a_sweep_that_keeps_failing_is_told(
    http_house: House,  # noqa: F811
    clinic: Clinic,  # noqa: F811
    owner: psycopg.Connection[Any],
    signoff: Command,
) -> None:
    """In the metrics, in the body of `/readyz`, which stays 200, and by `doctor`; until it works again."""
    service = await http_house.open([])
    await says(service, 200, failing_sweeps="[]")
    owner.execute(BREAK)
    await ask(http_house.db)
    await says(service, 200, failing_sweeps="search (CheckViolation)", database="ok")
    assert await metric(service, "signoff_sweeps_failing") == 1
    finding = (await clinic.findings())["sweeps"]
    assert (finding.well, "search (CheckViolation)" in finding.detail) == (False, True)
    ended = await clinic.command(signoff)
    assert ended.status == 1
    assert "✗ sweeps: failed three times running: search (CheckViolation)" in ended.said
    owner.execute(MEND)
    await says(service, 200, failing_sweeps="[]")
    assert await metric(service, "signoff_sweeps_failing") == 0
    assert "sweeps" not in await clinic.findings()


async def test_two_failures_are_nothing(database: Database) -> None:
    """A deadlock or two is passed over; the third failure running is recorded once, and its end once."""
    scheduler, broken = scheduler_of(database), True

    async def sweep(_: Database) -> int:
        if broken:
            raise ZeroDivisionError
        return 0

    for number in range(1, KEEPS_FAILING + 3):
        await scheduler._run("limits", sweep)
        assert await failing_sweeps.list_failing(database) == (
            {"limits": "ZeroDivisionError"} if number >= KEEPS_FAILING else {}
        )
    broken = False
    for _ in range(2):
        await scheduler._run("limits", sweep)
    assert await failing_sweeps.list_failing(database) == {}
    assert await column(database, "SELECT event FROM audit_event WHERE subject = 'sweeps' ORDER BY seq") == [
        "sweep.failed",
        "sweep.recovered",
    ]


async def test_what_was_mended_by_a_restart_is_well_again(database: Database) -> None:
    """Another scheduler, in which the sweep works, ends the alarm; one in which it has not run yet does not."""
    await failing_sweeps.note_failing(database, "limits", "CheckViolation")
    scheduler = scheduler_of(database)
    await scheduler._run("recovered", scheduler.sweeps["recovered"])
    assert await failing_sweeps.list_failing(database) == {"limits": "CheckViolation"}
    for name in ("limits", "recovered"):
        await scheduler._run(name, scheduler.sweeps[name])
    assert await failing_sweeps.list_failing(database) == {}
