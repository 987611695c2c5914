"""What is asked all day long is planned once for each connection, on a real PostgreSQL.

To plan the joins of one request takes ten times as long as to run them.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain.limits import Limit, Use
from agent.domain.request_list import RequestFilter, RequestKind, RequestOrder
from agent.store import call_locks, limits, report_locks, run_leases, views, vote_locks
from tests.integration.asking import GRACE, ask

OFTEN = 16
"""The driver prepares a statement at its sixth use, and PostgreSQL then looks five times whether a plan can be kept."""

MANY = 1000

_numbers = itertools.count()

Read = Callable[[Connection, UUID], Awaitable[object]]


async def _one(connection: Connection, request_id: UUID) -> object:
    return await views.request_view(connection, request_id)


async def _several(connection: Connection, request_id: UUID) -> object:
    number = next(_numbers) % 5 + 1
    found = await views.request_views(connection, [request_id, *(uuid4() for _ in range(number)), request_id])
    assert [view.id for view in found] == [request_id, request_id]
    return found


async def _ballot(connection: Connection, request_id: UUID) -> object:
    return await vote_locks.lock(connection, {request_id: None}, wait=True)


async def _ballots(connection: Connection, request_id: UUID) -> object:
    others = {uuid4(): None for _ in range(next(_numbers) % 5 + 1)}
    found = await vote_locks.lock(connection, others | {request_id: None}, wait=False)
    assert list(found) == [request_id]
    return found


async def _calls_to_claim(connection: Connection, request_id: UUID) -> object:
    others = [uuid4() for _ in range(next(_numbers) % 5 + 1)]
    subjects = [f"request:{each}" for each in others]
    return await call_locks.lock_ready(connection, others, others, subjects, wait=False)


async def _reports(connection: Connection, request_id: UUID) -> object:
    others = [uuid4() for _ in range(next(_numbers) % 5 + 1)]
    return await report_locks.lock(connection, others, others, [f"run:{each}" for each in others], wait=False)


async def _leases(connection: Connection, request_id: UUID) -> object:
    others = [uuid4() for _ in range(next(_numbers) % 5 + 1)]
    return await run_leases.take(connection, others, "w", 10.0, wait=False)


async def _turns(connection: Connection, request_id: UUID) -> object:
    others = [uuid4() for _ in range(next(_numbers) % 5 + 1)]
    return await run_leases.try_lock(connection, others, [f"run:{each}" for each in others])


async def _limits(connection: Connection, request_id: UUID) -> object:
    counts = Limit("calls", "pay", "count", "all", timedelta(days=1), Decimal(9))
    named = [replace(counts, name=f"limit {n}") for n in range(next(_numbers) % 3 + 1)]
    return await limits.states(connection, uuid4(), [Use(each, "all", Decimal(1)) for each in named])


async def _inbox(connection: Connection, request_id: UUID) -> object:
    """What the lists of the inbox read, for members of one channel and then of three."""
    channels = ["C0REVIEW", "C0AGENTS", "C0GENERAL"][: next(_numbers) % 3 + 1]
    seen = [(("channel",), each) for each in channels]
    await views.audiences(connection, GRACE.team_id)
    await views.waiting_for(connection, GRACE.team_id, GRACE.user_id, [], channels, 26)
    await views.count_waiting_for(connection, GRACE.team_id, GRACE.user_id, [], channels)
    await views.waiting_for_others(connection, GRACE, [], channels, seen, 26, RequestFilter())
    await views.count_waiting_for_others(connection, GRACE, [], channels, seen, RequestFilter())
    await views.filter_choices(connection, GRACE, RequestKind.WAITING, 200)
    return await views.found_requests(connection, GRACE.team_id, RequestKind.DECIDED, limit=12)


async def _history(connection: Connection, request_id: UUID) -> object:
    """What a page of the history reads, without filters, for a checkpoint, and for a word."""
    name = f"checkpoint{next(_numbers) % 3}"
    for kind, wanted in (
        (RequestKind.DECIDED, RequestFilter()),
        (RequestKind.DECIDED, RequestFilter(checkpoint_id=name)),
        (RequestKind.ANY, RequestFilter(words=(name,))),
    ):
        await views.found_for(connection, GRACE, kind, wanted, RequestOrder.NEWEST, limit=52)
        await views.audience_counts(connection, GRACE, kind, wanted, 201)
    await views.filter_choices(connection, GRACE, RequestKind.DECIDED, 200)
    return await views.history_lines(connection, [request_id])


@pytest.fixture
async def fresh(database_url: str) -> AsyncIterator[Database]:
    """The database with connections that have planned nothing yet."""
    async with Database(database_url) as opened:
        yield opened


@pytest.mark.parametrize(
    "read",
    [
        _one,
        _several,
        _ballot,
        _ballots,
        _calls_to_claim,
        _reports,
        _leases,
        _turns,
        _limits,
        _inbox,
        _history,
    ],
    ids=[
        "a view",
        "views",
        "a ballot",
        "ballots",
        "claims",
        "reports",
        "leases",
        "turns",
        "limits",
        "an inbox",
        "a history",
    ],
)
async def test_a_plan_is_kept(fresh: Database, owner: psycopg.Connection[Any], read: Read) -> None:
    """However often requests are read or voted on and calls run, be there few or many, their plans are kept."""
    asked = await ask(fresh)
    owner.execute("SET search_path = signoff")
    owner.execute(_MORE, {"many": MANY})
    owner.execute("ANALYZE approval_request, request_revision")
    for _ in range(OFTEN):
        async with fresh.transaction() as tx:
            await read(tx, asked.request_id)
    async with fresh.transaction() as tx:
        kept = await tx.execute(text("SELECT generic_plans FROM pg_prepared_statements"))
        assert min(kept.scalars()) > 0


_MORE = """
WITH more AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, n FROM generate_series(1, %(many)s) AS n
), proposed AS (
    INSERT INTO tool_call (id, principal, client_id, content_digest, agent, tool, executor, state, blocking, ask_no)
    SELECT id, 'key:many', n::text, '', 'many', 'many', 'program', 'asked', false, 1 FROM more
), asked AS (
    INSERT INTO approval_request
    SELECT (jsonb_populate_record(r, jsonb_build_object(
        'id', more.id, 'source', 'api', 'run_id', NULL, 'call_id', more.id, 'client_id', n::text))).*
    FROM approval_request AS r, more)
INSERT INTO request_revision
SELECT (jsonb_populate_record(v, jsonb_build_object('request_id', more.id))).* FROM request_revision AS v, more
"""
