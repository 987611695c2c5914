"""The connections over which workers take jobs, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import psycopg
import pytest
from procrastinate import PsycopgConnector
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import text

from agent.database import jobs
from agent.database.pools import Database

FETCH = "SELECT id FROM procrastinate_fetch_job_v2(ARRAY['calls'], NULL)"
PLANNER = ["enable_seqscan", "enable_bitmapscan"]
BACKLOG = 1000


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """The connections of one queue's worker."""
    async with jobs.application(database.conninfo("a worker")).open_async() as app:
        yield cast("PsycopgConnector", app.connector).pool


async def test_only_the_job_connections_avoid_scans(
    database: Database, pool: AsyncConnectionPool[Any]
) -> None:
    """Workers take jobs over connections without sequential and bitmap scans; all other connections plan freely."""
    for name in PLANNER:
        async with pool.connection() as connection:
            assert await (await connection.execute(f"SHOW {name}")).fetchone() == ("off",)
        for way in (database.transaction, database.decision_transaction, database.connection):
            async with way() as other:
                assert (await other.execute(text(f"SHOW {name}"))).scalar_one() == "on"


@pytest.mark.parametrize(("analyzed", "fetches"), [(0, 8), (1, 0)], ids=["a kept plan", "old statistics"])
async def test_a_backlog_is_fetched_as_fast_as_a_single_job(
    owner: psycopg.Connection[Any], pool: AsyncConnectionPool[Any], analyzed: int, fetches: int
) -> None:
    """Planned while there was hardly a job, the fetch of one of 1,000 jobs still reads few rows."""
    owner.execute("SET search_path = signoff")
    owner.execute("ALTER TABLE procrastinate_jobs SET (autovacuum_enabled = off)")
    owner.execute(_JOBS, {"many": analyzed})
    owner.execute("ANALYZE procrastinate_jobs")
    async with pool.connection() as connection:
        for _ in range(fetches):
            await connection.execute(FETCH, prepare=False)
        owner.execute(_JOBS, {"many": BACKLOG})
        async with connection.transaction():
            await connection.execute(FETCH, prepare=False)
            [read] = await (await connection.execute(_ROWS_READ)).fetchone() or [None]
    assert read is not None
    assert read < 10 * BACKLOG  # and not BACKLOG * BACKLOG


_JOBS = """
INSERT INTO procrastinate_jobs (queue_name, task_name, args)
SELECT 'calls', 'execute_call', jsonb_build_object('call_id', gen_random_uuid()) FROM generate_series(1, %(many)s)
"""
_ROWS_READ = """
SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'procrastinate_jobs'
"""
