"""Inbox and history: who sees what, in which order, page by page, through an index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text

from agent.database.driver import Statement, driver_of, sql_of
from agent.database.pools import Database
from agent.domain.request import RequestStatus
from agent.domain.request_list import RequestFilter, RequestKind, RequestLine, RequestOrder
from agent.store import reminders, request_locks, views
from agent.store.views import waiting_lists
from signoff.values import Person, Risk
from tests.integration import alone
from tests.integration.asking import ADA, GRACE, LINUS, TEAM, ask, ballot, exclude, reviewer, rule, start

NOBODY: list[str] = []
Connection = psycopg.Connection[Any]


async def inbox(
    db: Database, person: Person, roles: list[str], channels: list[str] = NOBODY, **page: object
) -> list[RequestLine]:
    async with db.connection() as connection:
        return await views.waiting_for(
            connection,
            person.team_id,
            person.user_id,
            roles,
            channels,
            **page,  # type: ignore[arg-type]
        )


async def test_everybody_finds_what_waits_for_them(database: Database) -> None:
    """By group, by name and by channel; not one's own, not what one has voted on, not other teams'."""
    group = await ask(database)
    named = await ask(database, rule(approvers=("U0GRACE", "U0LINUS")))
    channel = await ask(database, rule(approvers=("channel",)))
    both = await ask(database, rule(approvals_required=2))
    everything = [group.request_id, named.request_id, channel.request_id, both.request_id]
    assert [line.id for line in await inbox(database, GRACE, ["S0FINANCE"], ["C0REVIEW"])] == everything
    assert [line.id for line in await inbox(database, GRACE, [])] == [named.request_id]
    assert [line.id for line in await inbox(database, LINUS, [], ["C0REVIEW"])] == [
        named.request_id,
        channel.request_id,
    ]
    assert await inbox(database, ADA, ["S0FINANCE"], ["C0REVIEW"]) == []
    assert await inbox(database, Person("T0OTHER", "U0GRACE"), ["S0FINANCE"], ["C0REVIEW"]) == []
    await alone.vote(database, ballot(both, reviewer(GRACE)))
    await alone.vote(database, ballot(group, reviewer(LINUS)))
    left = await inbox(database, GRACE, ["S0FINANCE"], ["C0REVIEW"])
    assert [line.id for line in left] == [named.request_id, channel.request_id]
    (voted,) = [line for line in await inbox(database, LINUS, ["S0FINANCE"]) if line.id == both.request_id]
    assert (voted.approvals, voted.approvals_required) == (1, 2)


async def test_one_sees_ones_own_where_the_checkpoint_lets_one_decide_them(database: Database) -> None:
    """Without `prevent_self_review` a request waits for its requester too."""
    own = await ask(database, rule(prevent_self_review=False))
    assert [line.id for line in await inbox(database, ADA, ["S0FINANCE"])] == [own.request_id]


@pytest.mark.parametrize("why", ["requester", "key_owner", "instructor", "adviser", "editor"])
async def test_nothing_waits_for_those_whose_approval_would_not_count(database: Database, why: str) -> None:
    """Excluded people neither find a request in their list nor in its count; others do."""
    asked = await ask(database)
    await exclude(database, asked.request_id, GRACE, why)
    assert await inbox(database, GRACE, ["S0FINANCE"]) == []
    assert [line.id for line in await inbox(database, LINUS, ["S0FINANCE"])] == [asked.request_id]
    async with database.connection() as connection:
        counts = [
            await views.count_waiting_for(connection, TEAM, person.user_id, ["S0FINANCE"], [])
            for person in (GRACE, LINUS)
        ]
    assert [count.number for count in counts] == [0, 1]


async def test_lists_go_page_by_page(database: Database) -> None:
    """Three pages of two hold five requests, each once, in order; oldest first in an inbox, newest first elsewhere."""
    asked = [(await ask(database)).request_id for _ in range(5)]
    async with database.connection() as connection:
        everyone: list[RequestLine] = []
        mine: list[RequestLine] = []
        of_team: list[RequestLine] = []
        for _ in range(3):
            everyone += await views.waiting_for(
                connection, TEAM, "U0GRACE", ["S0FINANCE"], [], 2, everyone[-1].id if everyone else None
            )
            of_team += await views.found_requests(
                connection,
                TEAM,
                RequestKind.WAITING,
                order=RequestOrder.OLDEST,
                limit=2,
                after=of_team[-1].id if of_team else None,
            )
            mine += await views.requests_of(connection, ADA, 2, mine[-1].id if mine else None)
        assert await views.audiences(connection, TEAM) == [(("S0FINANCE",), "C0REVIEW")]
    assert [line.id for line in everyone] == asked
    assert [line.id for line in of_team] == asked
    assert [line.id for line in mine] == asked[::-1]


async def test_history_is_by_agent_person_outcome_and_time(database: Database) -> None:
    """Each filter leaves what it names, with who decided, why and when; what waits is in none."""
    yes, no, _ = await ask(database), await ask(database), await ask(database)
    other = await ask(database, agent="cleaner", requester=LINUS)
    await alone.vote(database, ballot(yes, reviewer(GRACE)))
    await alone.vote(database, ballot(no, reviewer(LINUS), "reject", reason="wrong order"))
    await alone.vote(database, ballot(other, reviewer(GRACE), "reject"))
    async with database.connection() as connection:

        async def ids(limit: int = 20, after: UUID | None = None, **wanted: Any) -> list[UUID]:
            given = RequestFilter(**wanted)
            found = await views.found_requests(
                connection, TEAM, RequestKind.DECIDED, given, limit=limit, after=after
            )
            return [line.id for line in found]

        y, n, o = yes.request_id, no.request_id, other.request_id
        assert await ids() == [o, n, y]
        assert await ids(agent="cleaner") == [o]
        assert await ids(status=RequestStatus.REJECTED) == [o, n]
        assert await ids(person=GRACE) == [o, y]
        assert await ids(person=LINUS) == [o, n]
        assert await ids(person=LINUS, agent="refunds") == [n]
        assert await ids(since=datetime.now(UTC) + timedelta(hours=1)) == []
        assert await ids(since=datetime.now(UTC) - timedelta(hours=1)) == [o, n, y]
        assert await ids(limit=1) == [o]
        assert await ids(limit=2, after=o) == [n, y]
        assert await ids(person=LINUS, after=o) == [n]
        decided = await views.found_requests(connection, TEAM, RequestKind.DECIDED, limit=2)
    assert [line.id for line in decided] == [o, n]
    rejected = decided[1]
    assert (rejected.decided_by, rejected.reason, rejected.agent) == (LINUS, "wrong order", "refunds")
    assert rejected.thread == ("C0REVIEW", "1700000000.000100")
    assert rejected.decided_at is not None


async def test_every_list_is_filtered_and_sorted_alike(database: Database) -> None:
    """Agent, rule, risk, requester, channel and deadline narrow all lists; each order goes page by page through all."""
    low = await ask(database, rule(risk="low", checkpoint_id="small"), agent="cleaner", requester=LINUS)
    soon = await ask(database, rule(risk="high", timeout=timedelta(minutes=10)))
    late = await ask(database, rule(risk="high"))
    asked = {"low": low.request_id, "soon": soon.request_id, "late": late.request_id}
    an_hour = datetime.now(UTC) + timedelta(hours=1)
    cases: list[tuple[RequestFilter, str]] = [
        (RequestFilter(), "low soon late"),
        (RequestFilter(agent="cleaner"), "low"),
        (RequestFilter(checkpoint_id="small"), "low"),
        (RequestFilter(risk=Risk.HIGH), "soon late"),
        (RequestFilter(requester=ADA), "soon late"),
        (RequestFilter(channel_id="C0OTHER"), ""),
        (RequestFilter(ends_before=an_hour), "soon"),
        (RequestFilter(ends_before=an_hour, risk=Risk.LOW), ""),
        (RequestFilter(since=an_hour), ""),
        (RequestFilter(status=RequestStatus.EXPIRED), ""),
    ]
    theirs = (TEAM, "U0GRACE", ["S0FINANCE"], ["C0REVIEW"])
    seen = [(("S0FINANCE",), "C0REVIEW")]
    async with database.connection() as connection:
        for wanted, expected in cases:
            ids = [asked[name] for name in expected.split()]
            for kind in (RequestKind.WAITING, RequestKind.ANY):
                found = await views.found_requests(connection, TEAM, kind, wanted, RequestOrder.OLDEST)
                assert [line.id for line in found] == ids, wanted
                counts = await views.audience_counts(connection, GRACE, kind, wanted, 100)
                assert sum(each.number for each in counts) == len(ids)
            mine = await views.waiting_for(connection, *theirs, wanted=wanted)
            assert [line.id for line in mine] == ids, wanted
            assert (await views.count_waiting_for(connection, *theirs, wanted=wanted)).number == len(ids)
            listed = await views.waiting_for_others(connection, LINUS, [], [], seen, 20, wanted)
            assert [line.id for line in listed] == ids, wanted
            counted = await views.count_waiting_for_others(connection, LINUS, [], [], seen, wanted)
            assert counted.number == len(ids)
        for order, expected in (
            (RequestOrder.OLDEST, "low soon late"),
            (RequestOrder.NEWEST, "late soon low"),
            (RequestOrder.DEADLINE, "soon low late"),
            (RequestOrder.RISK, "late soon low"),
        ):
            every: list[RequestLine] = []
            for _ in range(3):
                every += await views.waiting_for(
                    connection, *theirs, 1, every[-1].id if every else None, order=order
                )
            assert [line.id for line in every] == [asked[name] for name in expected.split()], order
            team: list[RequestLine] = []
            for _ in range(3):
                team += await views.found_requests(
                    connection,
                    TEAM,
                    RequestKind.WAITING,
                    order=order,
                    limit=1,
                    after=team[-1].id if team else None,
                )
            assert [line.id for line in team] == [line.id for line in every], order
        choices = await views.filter_choices(connection, LINUS, RequestKind.WAITING, 100)
    assert {(each.agents, each.requesters, each.own) for each in choices} == {
        (("cleaner",), (LINUS.user_id,), True),
        (("refunds",), (ADA.user_id,), False),
    }


async def test_others_decide_what_somebody_sees_asked_for_or_has_double(database: Database) -> None:
    """Nothing of an audience that they may not see, and nothing that waits for them; each request once, by age."""
    double = [await ask(database, rule(approvals_required=2)) for _ in range(2)]
    first, second = [each.request_id for each in double]
    third = (await ask(database, rule(approvers=("U0LINUS",)))).request_id
    finance, linus = (("S0FINANCE",), "C0REVIEW"), (("U0LINUS",), "C0REVIEW")

    async def listed(who: Person, roles: list[str], *seen: tuple[tuple[str, ...], str]) -> list[UUID]:
        found: list[list[UUID]] = []
        async with database.connection() as connection:
            for order in (RequestOrder.OLDEST, RequestOrder.NEWEST, RequestOrder.RISK, RequestOrder.DEADLINE):
                lines = await views.waiting_for_others(
                    connection, who, roles, [], seen, 20, RequestFilter(), order
                )
                found.append([line.id for line in lines])
            count = await views.count_waiting_for_others(connection, who, roles, [], seen, RequestFilter(), 2)
        assert found[1] == found[2] == found[0][::-1]
        assert found[3] == found[0]
        assert str(count) == ("2+" if len(found[0]) > 2 else str(len(found[0])))
        return found[0]

    assert await listed(GRACE, ["S0FINANCE"]) == []
    assert await listed(GRACE, ["S0FINANCE"], finance) == []
    assert await listed(GRACE, ["S0FINANCE"], finance, linus) == [third]
    assert await listed(GRACE, [], finance, linus) == [first, second, third]
    assert await listed(ADA, []) == [first, second, third]
    assert await listed(ADA, ["S0FINANCE"], finance) == [first, second, third]
    await alone.vote(database, ballot(double[1], reviewer(GRACE)))
    assert await listed(GRACE, ["S0FINANCE"], finance) == [second]


async def test_agents_at_work_are_listed_newest_first(database: Database) -> None:
    """A run that waits for people is at work; one that was stopped is not."""
    waiting = await ask(database)
    working, _ = await start(database)
    stopped, _ = await start(database)
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE agent_run SET status = 'cancelled' WHERE id = :id"), {"id": stopped})
    async with database.connection() as connection:
        found = await views.running(connection, TEAM)
        assert await views.running(connection, "T0OTHER") == []
    assert [run.id for run in found] == [working, waiting.run_id]


async def test_views_come_in_the_order_asked_for(database: Database) -> None:
    """Many views at once, unknown ids left out."""
    first, second = await ask(database), await ask(database)
    async with database.connection() as connection:
        found = await views.request_views(connection, [second.request_id, first.run_id, first.request_id])
    assert [view.id for view in found] == [second.request_id, first.request_id]


MANY = """
WITH many AS MATERIALIZED (
    SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id, n FROM generate_series(1, 20000) AS n
), opened_under AS (
    INSERT INTO rule (digest, content) VALUES (sha256('p'), '{"prevent_self_review": true}')
), proposed AS (
    INSERT INTO tool_call (id, principal, client_id, content_digest, agent, tool, executor, state, blocking, ask_no)
    SELECT id, 'api', n::text, '', 'flood', 't', 'program', 'asked', false, 1 FROM many
)
INSERT INTO approval_request (id, call_id, principal, client_id, source, agent, agent_version, requester_asserted,
        checkpoint_id, rule_digest, policy_epoch, approvers, risk, approvals_required,
        team_id, channel_id, expires_at, excluded)
SELECT id, id, 'api', n::text, 'api', 'flood',
       '1', 'none', 'all', sha256('p'), 0,
       CASE WHEN n %% 2000 = 0 THEN '["S0RARE"]' ELSE '["S0OTHER"]' END::jsonb, 'low', 1, %s,
       'C' || n %% 3, clock_timestamp() + interval '1 day', '[]'
FROM many
"""
REVISIONS = """
INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context)
SELECT id, 1, 't', '1', 'a', sha256('a'), 'agent', 'd', '{}' FROM approval_request
"""


@pytest.mark.usefixtures("unused_database")
async def test_what_waits_for_somebody_else_is_not_read(database: Database, owner: Connection) -> None:
    """Twenty thousand requests for others cost an inbox, the timer and the reminders a few pages, not a scan."""
    owner.execute(MANY, [TEAM])
    owner.execute(REVISIONS)
    owner.execute("ANALYZE")
    whose: dict[str, object] = {"team": TEAM, "user": "U1", "roles": ["S0RARE"], "channels": []}
    none: frozenset[str] = frozenset()
    waiting_for = waiting_lists._waiting_for(none, RequestOrder.OLDEST, 20, later=False)
    assert await pages(database, waiting_for, whose) < 500
    assert await pages(database, waiting_lists._count_waiting_for(none, 200), whose) < 500
    assert await pages(database, request_locks._DUE, {"limit": 500, "but": [], "only": None}) < 50
    assert await pages(database, reminders._REMINDERS_DUE, {"limit": 500, "but": [], "only": None}) < 50


async def count_for(db: Database, user: str, roles: list[str], at_most: int = 200) -> str:
    async with db.connection() as connection:
        found = await views.count_waiting_for(connection, TEAM, user, roles, ["C0REVIEW"], at_most)
    return str(found)


async def test_what_waits_for_somebody_is_counted_on_all_pages(database: Database) -> None:
    """The count is of the same requests that the list has: by group, name and channel, without own and voted ones."""
    assert await count_for(database, "U0GRACE", ["S0FINANCE"]) == "0"
    asked = [await ask(database, rule(approvals_required=2)) for _ in range(3)]
    await ask(database, rule(approvers=("U0GRACE",)))
    await ask(database, rule(approvers=("channel",)))
    await ask(database, rule(approvers=("U0LINUS",)))
    assert await count_for(database, "U0GRACE", ["S0FINANCE"]) == "5"
    assert await count_for(database, "U0GRACE", []) == "2"
    assert await count_for(database, "U0ADA", ["S0FINANCE"]) == "0"
    await alone.vote(database, ballot(asked[0], reviewer(GRACE)))
    await alone.vote(database, ballot(asked[1], reviewer(GRACE), "reject"))
    assert await count_for(database, "U0GRACE", ["S0FINANCE"]) == "3"
    listed = await inbox(database, GRACE, ["S0FINANCE"], ["C0REVIEW"])
    assert len(listed) == 3
    assert await count_for(database, "U0GRACE", ["S0FINANCE"], at_most=2) == "2+"
    assert await count_for(database, "U0GRACE", ["S0FINANCE"], at_most=3) == "3"


@pytest.mark.usefixtures("unused_database")
async def test_counting_ends_where_it_would_be_dear(database: Database, owner: Connection) -> None:
    """Of twenty thousand it says "200+", after looking at hardly more rows than that."""
    owner.execute(MANY, [TEAM])
    owner.execute("ANALYZE")
    assert await count_for(database, "U1", ["S0OTHER"]) == "200+"
    whose: dict[str, object] = {"team": TEAM, "user": "U1", "roles": ["S0OTHER"], "channels": []}
    assert await pages(database, waiting_lists._count_waiting_for(frozenset(), 200), whose) < 1500


async def pages(db: Database, statement: Statement, parameters: dict[str, object]) -> int:
    """How many pages of the database the statement touches."""
    async with db.transaction() as tx:
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql_of(statement)}"
        plan = await (await driver_of(tx.connection).execute(explain.encode(), parameters)).fetchone()
        assert plan is not None
        top = plan[0][0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def test_what_the_calls_of_a_run_were_about_is_one_query(database: Database) -> None:
    """Arguments, facts and what to hide, of a run and those below it; a run without calls has none."""
    parent, _ = await start(database)
    child = await ask(database, rule(redact=("order_id",)), parent=parent)
    async with database.connection() as connection:
        found = await views.values_of(connection, [child.run_id, parent, child.request_id])
    assert set(found) == {child.run_id, parent}
    for values in found.values():
        assert values.redact == ("order_id",)
        assert '{"order_id": 0}' in values.arguments
        assert b'{"price":1500}' in values.facts
