"""The multitude of the benchmarks: copies that are what the product would have written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.database.driver import sql_of
from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain.outbound import MAIL
from agent.domain.request import RequestStatus
from agent.domain.request_list import RequestFilter, RequestKind, RequestOrder
from agent.domain.run import RunStatus
from agent.domain.short_ids import IdRange
from agent.store import calls, deliveries, outbound, outbox, overdue, reminders, request_locks, views
from agent.store.outbox import Destination
from agent.store.views import reports, request_lists
from agent.store.views.reports import ReportScope
from agent.usecases import audit, requests
from benchmarks.decided import multiply_decided, originals
from benchmarks.ground import owner
from benchmarks.multitude import is_overdue, multiply
from benchmarks.side import BOT_TOKEN
from benchmarks.waiting import ADA, GRACE, TEAM, seed
from signoff.values import Person, Risk
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.workspace import demo_workspace


async def test_the_record_of_every_copy_holds(database_url: str) -> None:
    """Each copy has its own chains of the record, of as many events as the original's, and all of them verify."""
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    async with Database(database_url) as db:
        of_one, _ = await audit.find_problems(db)
        await multiply(database_url, row[1], 12)
        events, problems = await audit.find_problems(db)
    assert problems == []
    assert events == 13 * of_one
    with owner(database_url) as connection:
        count = connection.execute(
            "SELECT count(*) FROM approval_request WHERE status = 'waiting'"
        ).fetchone()
        assert count == (13,)
        assert not is_overdue(connection)


async def test_the_look_for_what_is_overdue_reads_no_table(database_url: str) -> None:
    """With hundreds that wait and none due, the sweeps' look goes through indexes alone; it comes every second."""
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 400)
    with owner(database_url) as connection:
        plan = [line for (line,) in connection.execute(f"EXPLAIN {sql_of(overdue._OVERDUE)}")]
    assert [line for line in plan if "Seq Scan on approval_request" in line] == []


_ONE_RUN = "SELECT run_id, id FROM approval_request WHERE id = %s"

PAGE = 20

_READ = text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables")

Look = Callable[[Connection], Awaitable[object]]


def _looks() -> dict[str, Look]:
    """What operators, a deployment and the sender look for; ``nobody`` is an agent without runs."""
    looks: dict[str, Look] = {
        "all runs": views.search_runs,
        "latest runs": lambda tx: views.recent_runs(tx, team_id=TEAM, limit=PAGE),
        "runs at work": lambda tx: views.running(tx, TEAM, PAGE),
        "runs of nobody": lambda tx: views.search_runs(tx, agent="nobody"),
        "requests of nobody": lambda tx: views.search_requests(tx, agent="nobody"),
        "runs of other agents": lambda tx: views.runs_of_others(tx, ["payments"]),
        "approved versions": lambda tx: views.approved_versions(tx, ["nobody"], "resumed"),
        "mail": lambda tx: outbound.lease_due(tx, MAIL, PAGE, 10.0),
        "overdue requests": lambda tx: request_locks.lock_due(tx, PAGE),
        "one overdue request": lambda tx: request_locks.lock_due(tx, 1, (), UUID(int=1)),
        "reminders": lambda tx: reminders.lock_due(tx, PAGE),
        "overdue approvals": lambda tx: calls.lock_overdue(tx, PAGE),
        "a webhook": lambda tx: outbound.lease_due(tx, "00000000-0000-0000-0000-000000000001", PAGE, 10.0),
    }
    looks |= _lists_of_a_person()
    for run in RunStatus:
        looks[f"runs {run}"] = lambda tx, run=run: views.search_runs(tx, status=run)  # type: ignore[misc]
    for request in RequestStatus:
        looks[f"requests {request}"] = lambda tx, request=request: views.search_requests(  # type: ignore[misc]
            tx, status=request
        )
    return looks


def _lists_of_a_person() -> dict[str, Look]:
    """What the inbox and `/approvals` read for Grace, of 50 requests that are hers and those of a group beside them."""
    everything = RequestFilter()
    whose = (["S0FINANCE"], ["C0REVIEW"])
    seen = [(("S0FINANCE",), "C0REVIEW"), (("S0TEAM1",), "C0TEAM1")]
    looks: dict[str, Look] = {
        "audiences": lambda tx: views.audiences(tx, TEAM),
        "for Grace": lambda tx: views.waiting_for(tx, TEAM, "U0GRACE", *whose, PAGE),
        "count for Grace": lambda tx: views.count_waiting_for(tx, TEAM, "U0GRACE", *whose, PAGE),
        "for others": lambda tx: views.waiting_for_others(tx, GRACE, *whose, seen, PAGE, everything),
        "count for others": lambda tx: views.count_waiting_for_others(
            tx, GRACE, *whose, seen, everything, PAGE
        ),
        "asked by Ada": lambda tx: views.requests_of(tx, ADA, PAGE),
    }
    for kind in RequestKind:
        looks[f"list of {kind}"] = lambda tx, kind=kind: views.found_requests(  # type: ignore[misc]
            tx, TEAM, kind, limit=PAGE
        )
        looks[f"count of {kind}"] = lambda tx, kind=kind: views.audience_counts(  # type: ignore[misc]
            tx, GRACE, kind, everything, PAGE
        )
        looks[f"choices of {kind}"] = lambda tx, kind=kind: views.filter_choices(  # type: ignore[misc]
            tx, GRACE, kind, PAGE
        )
    return looks


async def test_no_list_reads_more_than_its_page(database_url: str) -> None:
    """With very many that wait, what narrows a list to others, or to nothing, is found without reading those.

    Of so few rows as here PostgreSQL would rather read the whole table, so that is ruled out.
    """
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 2000)
    with owner(database_url) as connection:
        connection.execute(
            "INSERT INTO notice (id, kind, recipient, event, request_id)"
            " SELECT gen_random_uuid(), 'email', 'ada@example.com', 'request.opened', id FROM approval_request"
        )
        # Again: what a connection that was just closing could still see was not marked as visible to all.
        connection.execute("VACUUM ANALYZE")
    read = {}
    async with Database(database_url) as db:
        for name, look in _looks().items():
            async with db.transaction() as tx:
                await tx.execute(text("SET LOCAL enable_seqscan = off"))
                # What the transactions before have read is in it, until the server has passed it on.
                before = (await tx.execute(_READ)).scalar_one()
                await look(tx)
                read[name] = (await tx.execute(_READ)).scalar_one() - before
    assert {name: rows for name, rows in read.items() if rows > 10 * PAGE} == {}


_FORMS = """
INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, path, together)
SELECT gen_random_uuid(), id, revision, team_id, 'U0GRACE', 'approve', 'slack_together',
       CASE WHEN number <= 6 THEN CAST(%s AS uuid) ELSE gen_random_uuid() END
FROM (SELECT id, revision, team_id, row_number() OVER (ORDER BY id) AS number FROM approval_request) AS r
"""


@pytest.mark.parametrize("voter", [None, GRACE], ids=["anybody", "grace"])
@pytest.mark.parametrize("kind", RequestKind)
async def test_the_votes_of_a_form_are_found_without_reading_others(
    database_url: str, kind: RequestKind, voter: Person | None
) -> None:
    """With a kept plan, neither the history of a form nor its count reads the votes of other forms."""
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 1000)
    form, read = UUID(int=7), []
    with owner(database_url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_FORMS, [form])
        if kind is RequestKind.DECIDED:
            connection.execute("UPDATE approval_request SET status = 'approved', decided_at = created_at")
        connection.execute("VACUUM ANALYZE")
    wanted = RequestFilter(together=form, voter=voter)
    looks: list[Look] = [
        lambda tx: views.found_requests(tx, TEAM, kind, wanted, limit=PAGE),
        lambda tx: views.audience_counts(tx, GRACE, kind, wanted, 200),
    ]
    async with Database(database_url) as db:
        for look in looks:
            async with db.transaction() as tx:
                await tx.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
                before = (await tx.execute(_READ)).scalar_one()
                found = await look(tx)
                read.append((await tx.execute(_READ)).scalar_one() - before)
            assert found
    assert max(read) <= 10 * PAGE, read


@pytest.mark.parametrize("about", ["request", "run"])
async def test_who_is_told_of_an_outcome_is_found_without_reading_others(
    database_url: str, about: str
) -> None:
    """Among hundreds of requests and their runs, the line of one's outcome finds its requester by key."""
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 300)
    with owner(database_url) as connection:
        connection.execute("VACUUM ANALYZE")
        [(run_id, request_id)] = connection.execute(_ONE_RUN, [row[1]]).fetchall()
    review = Destination(TEAM, "C0REVIEW")
    line = (
        outbox.run_line(review, run_id, "failed")
        if about == "run"
        else outbox.request_line(review, request_id, "rejected")
    )
    async with Database(database_url) as db, db.transaction() as tx:
        await tx.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
        before = (await tx.execute(_READ)).scalar_one()
        outbox.enqueue(tx, [outbox.telling(line)])
        await tx.flush()
        assert (await tx.execute(_READ)).scalar_one() - before <= PAGE


SOMEBODY, NOBODY = Person(TEAM, "U0PERSON1"), Person(TEAM, "U0NOBODY")
FILTERS: dict[str, RequestFilter] = {
    "nothing": RequestFilter(),
    "a time": RequestFilter(
        since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime.now(UTC) - timedelta(days=90)
    ),
    "ids": RequestFilter(ids=IdRange(UUID(int=0), UUID(int=2**64), "^0")),
    "a requester": RequestFilter(requester=SOMEBODY),
    "no requester": RequestFilter(requester=NOBODY),
    "a decider": RequestFilter(decider=GRACE),
    "no decider": RequestFilter(decider=NOBODY),
    "a person": RequestFilter(person=GRACE),
    "no person": RequestFilter(person=NOBODY),
    "a checkpoint": RequestFilter(checkpoint_id="agent1"),
    "no checkpoint": RequestFilter(checkpoint_id="o'none\\"),
    "a channel": RequestFilter(channel_id="C0TEAM1"),
    "no channel": RequestFilter(channel_id="C0NONE"),
    "a risk": RequestFilter(risk=Risk.MEDIUM),
    "no risk": RequestFilter(risk=Risk.CRITICAL),
    "an agent": RequestFilter(agent="agent1"),
    "no agent": RequestFilter(agent="none"),
    "what is rejected": RequestFilter(status=RequestStatus.REJECTED),
    "what is expired": RequestFilter(status=RequestStatus.EXPIRED),
    "doubt": RequestFilter(in_doubt=True),
    "no form": RequestFilter(together=UUID(int=1)),
    "no form of a person": RequestFilter(together=UUID(int=1), voter=GRACE),
    "a common word": RequestFilter(words=("order",)),
    "a rare word": RequestFilter(words=("customer77",)),
    "a word that stands nowhere": RequestFilter(words=("zebra",)),
    "a common word of an agent": RequestFilter(words=("order",), agent="agent1"),
    "no word of a risk": RequestFilter(words=("zebra",), risk=Risk.MEDIUM),
}


def _history() -> dict[str, Look]:
    """The lists of decided requests and of all, with each filter, in each order, and their numbers."""
    looks: dict[str, Look] = {
        "asked by Ada": lambda tx: views.requests_of(tx, ADA, PAGE),
        "audiences of a report": lambda tx: views.report_audiences(tx, TEAM, 90),
        "a report": lambda tx: views.report(tx, ReportScope(GRACE), 90),
        "a report of everything": lambda tx: views.report(tx, ReportScope(GRACE, everything=True), 90),
    }
    for kind in (RequestKind.DECIDED, RequestKind.ANY):
        looks[f"choices of {kind}"] = lambda tx, kind=kind: views.filter_choices(  # type: ignore[misc]
            tx, GRACE, kind, PAGE
        )
        for name, wanted in FILTERS.items():
            if kind is RequestKind.ANY and wanted.status:
                continue  # who asks for an outcome asks for decided ones
            looks[f"number of {kind}, {name}"] = lambda tx, kind=kind, wanted=wanted: (  # type: ignore[misc]
                views.audience_counts(tx, GRACE, kind, wanted, PAGE)
            )
            # ASKED is of a group that waits. The oldest with a common word are among the newest MAX_FOUND, all of
            # which are read: a walk from the other end would leave out those between.
            skipped = {RequestOrder.ASKED} | ({RequestOrder.OLDEST} if "order" in wanted.words else set())
            for order in set(RequestOrder) - skipped:
                looks[f"{kind}, {name}, {order}"] = lambda tx, kind=kind, wanted=wanted, order=order: (  # type: ignore[misc]
                    views.found_for(tx, GRACE, kind, wanted, order, limit=PAGE)
                )
    return looks


async def _decided(database_url: str, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand, with short walks."""
    monkeypatch.setattr(request_lists, "WALKED", 4 * PAGE)
    monkeypatch.setattr(request_lists, "MAX_SORTED", 2 * PAGE)
    monkeypatch.setattr(reports, "MOST", 2 * PAGE)
    for cached in (request_lists._found, request_lists._found_for, request_lists._counts):
        cached.cache_clear()
    async with SlackSandbox(demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False) as slack:
        of = await originals(slack, database_url, logs)
    await multiply_decided(database_url, of, 2000)


async def test_no_list_of_the_history_reads_more_than_its_page(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many decided requests, each list, filter, order and number reads few, whether many match or none do.

    The copies are what the service would have written. A walk through the latest is short here, as are the part of
    a history that is sorted by deadline or risk, and a report.
    """
    await _decided(database_url, tmp_path, monkeypatch)
    with owner(database_url) as connection:
        connection.execute("VACUUM ANALYZE")
    read = {}
    async with Database(database_url) as db:
        _, problems = await audit.find_problems(db)
        for name, look in _history().items():
            async with db.transaction() as tx:
                await tx.execute(text("SET LOCAL enable_seqscan = off"))
                await tx.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
                before = (await tx.execute(_READ)).scalar_one()
                await look(tx)
                read[name] = (await tx.execute(_READ)).scalar_one() - before
    assert problems == []
    assert {name: rows for name, rows in read.items() if rows > 40 * PAGE} == {}


IN_SQL = {
    "a requester": "requester_user_id = 'U0PERSON1'",
    "a decider": "id IN (SELECT request_id FROM decision WHERE user_id = 'U0GRACE')",
    "a checkpoint": "checkpoint_id = 'agent1'",
    "a channel": "channel_id = 'C0TEAM1'",
    "a risk": "risk = 'medium'",
    "no risk": "risk = 'critical'",
    "an agent": "agent = 'agent1'",
    "what is rejected": "status = 'rejected'",
    "a common word": "true",
    "a rare word": "id IN (SELECT request_id FROM request_search"
    " WHERE words @@ to_tsquery('simple', 'customer77:*'))",
    "a common word of an agent": "agent = 'agent1'",
}


@pytest.mark.parametrize("order", [RequestOrder.NEWEST, RequestOrder.OLDEST])
async def test_the_pages_of_a_long_history_have_all_that_match(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: RequestOrder
) -> None:
    """Page by page, each filter's list has what matches, each request once, in order, however rare it is."""
    await _decided(database_url, tmp_path, monkeypatch)
    down = "DESC" if order is RequestOrder.NEWEST else "ASC"
    listed: dict[str, list[UUID]] = {}
    stored: dict[str, list[UUID]] = {}
    with owner(database_url) as connection:
        for name, condition in IN_SQL.items():
            found = connection.execute(
                f"SELECT id FROM approval_request WHERE decided_at IS NOT NULL AND {condition}"
                f" ORDER BY decided_at {down}, id {down}"
            )
            stored[name] = [each for (each,) in found]
    async with Database(database_url) as db:
        for name in IN_SQL:
            listed[name], after, more = [], None, True
            while more:
                page = await db.read(
                    views.found_for,
                    GRACE,
                    RequestKind.DECIDED,
                    FILTERS[name],
                    order,
                    limit=5 * PAGE,
                    after=after,
                )
                listed[name] += [each.id for each in page]
                more = len(page) == 5 * PAGE or any(each.cut for each in page)
                after = page[-1].id if page else None
    assert listed == stored
    assert len(stored["a rare word"]) > 0


async def test_cards_that_may_not_be_changed_now_are_not_read(database_url: str) -> None:
    """Of hundreds of cards that wait in a channel, none is read while it rests, or while only new messages may go."""
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 600)
    here = Destination(TEAM, "C0AGENTS")
    read = {}
    async with Database(database_url) as db:
        with owner(database_url) as connection:
            connection.execute("UPDATE agent_run SET thread_ts = '1.0' WHERE thread_ts IS NULL")
            connection.execute("UPDATE approval_request SET expires_at = clock_timestamp()")
            await requests.expire_due(db)
            connection.execute(
                "INSERT INTO outlet (team_id, channel_id) SELECT DISTINCT team_id, channel_id FROM delivery"
            )
            connection.execute("VACUUM ANALYZE")
            for name, posts, changes in (("rests", 60, 60), ("may post", 0, 60)):
                connection.execute(
                    "UPDATE outlet SET next_at = clock_timestamp() + make_interval(secs => %s),"
                    " next_update_at = clock_timestamp() + make_interval(secs => %s)",
                    [posts, changes],
                )
                async with db.transaction() as tx:
                    await tx.execute(text("SET LOCAL enable_seqscan = off"))
                    before = (await tx.execute(_READ)).scalar_one()
                    await deliveries.channels_due(tx, TEAM)
                    of_round = (await tx.execute(_READ)).scalar_one() - before
                    found = await deliveries.take_next(
                        tx, here, "test", 10, served=[], cards_per_minute=10, redraw_after=2, fold=True
                    )
                    assert not found.kind
                    read[name] = (of_round, (await tx.execute(_READ)).scalar_one() - before - of_round)
    assert {name: rows for name, rows in read.items() if max(rows) > 50} == {}


async def test_a_flood_of_changes_is_not_read_before_it_is_analysed(database_url: str) -> None:
    """A channel's next message costs the same however many changes came since the last ANALYZE.

    A new run, which may be posted while changes may not, is found behind them.
    """
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 1500)
    read, found = {}, {}
    async with Database(database_url) as db:
        with owner(database_url) as connection:
            connection.execute("UPDATE approval_request SET expires_at = clock_timestamp()")
            await requests.expire_due(db)
            connection.execute(
                "INSERT INTO outlet (team_id, channel_id) SELECT DISTINCT team_id, channel_id FROM delivery"
            )
            for posts, changes in ((0, 60), (60, 0), (0, 0)):
                connection.execute(
                    "UPDATE outlet SET lease_until = NULL, lease_worker = NULL,"
                    " next_at = clock_timestamp() + make_interval(secs => %s),"
                    " next_update_at = clock_timestamp() + make_interval(secs => %s)",
                    [posts, changes],
                )
                for channel in ("C0AGENTS", "C0TEAM1"):
                    async with db.transaction() as tx:
                        before = (await tx.execute(_READ)).scalar_one()
                        here = Destination(TEAM, channel)
                        look = await deliveries.take_next(
                            tx, here, "test", 10, served=[], cards_per_minute=10, redraw_after=2, fold=True
                        )
                        read[channel, posts, changes] = (await tx.execute(_READ)).scalar_one() - before
                        found[channel, posts, changes] = look.kind, look.root_ts is None
    assert found["C0AGENTS", 0, 60] == ("run_root", True)
    assert {name: rows for name, rows in read.items() if rows > 1000} == {}
