"""The rollout of version 0007, which has no jobs: what processes of version 0006 still do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from agent.database import migrations
from agent.database.address import Address
from agent.database.pools import Database
from agent.database.wakeups import Wakeup
from agent.runtime.look import Look
from tests.integration.asking import ask
from tests.integration.test_migrations import OBJECTS, RIGHTS, objects

Connection = psycopg.Connection[Any]

RUN = """
    INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted)
    VALUES (%s, %s, '1', 'task', 'cli', 'none')
"""
CALL = """
    INSERT INTO tool_call (id, run_id, turn, index, model_call_id, tool, raw_arguments, blocking)
    VALUES (%s, %s, %s, 0, 'call_1', 'refund', '{}', true)
"""
ANSWERED = (
    "UPDATE tool_call SET state = 'answered', answer_kind = 'result', answered_at = now() WHERE id = %s"
)
# As `batch_defer_jobs_async` of procrastinate 3.10 sends it; the driver writes the array out in the same way.
DEFER = """
    SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[
        ROW('calls', 'execute_call', 1, NULL, NULL, '{"call_id": "1"}', NULL),
        ROW('runs', 'advance_run', 0, NULL, NULL, '{"run_id": "2"}', now())
    ]::procrastinate_job_to_defer_v1[])) AS id
"""
TO_WEBHOOKS = """
    WITH queued AS (
        INSERT INTO notice (id, kind, webhook_id, event, request_id, run_id)
        SELECT gen_random_uuid(), 'webhook', w.id, 'decision.made', f.request_id, f.run_id
        FROM webhook AS w, unnest(ARRAY[%s]::uuid[], ARRAY[NULL]::uuid[]) AS f (request_id, run_id)
        WHERE w.removed_at IS NULL AND w.events @> '["decision.made"]'
        RETURNING webhook_id
    )
    SELECT procrastinate_defer_jobs_v1(array_agg(
        ROW('deliveries', 'send_notices', 0, NULL, NULL, jsonb_build_object('target', webhook_id::text), NULL)
        ::procrastinate_job_to_defer_v1))
    FROM (SELECT DISTINCT webhook_id FROM queued) AS told HAVING count(*) > 0
"""
WAITS = "SELECT 1 FROM pg_locks WHERE relation = 'tool_call'::regclass AND NOT granted"
FETCH = "SELECT id FROM procrastinate_fetch_job_v2(ARRAY['calls']::varchar[], NULL)"


@pytest.fixture
def service(database_url: str) -> Iterator[Connection]:
    """A process of version 0006, with the rights of the service."""
    with psycopg.connect(Address.read(database_url).conninfo(), autocommit=True) as connection:
        connection.execute("SET ROLE signoff_app")
        yield connection


def test_an_older_process_still_commits_its_facts(service: Connection) -> None:
    """To defer jobs gives an older process an id for each and leaves nothing behind; its facts are committed."""
    with service.transaction():
        service.execute(RUN, [uuid4(), "orders"])
        assert service.execute(DEFER).fetchall() == [(0,), (0,)]
    assert service.execute("SELECT agent FROM agent_run").fetchall() == [("orders",)]


async def test_an_older_process_still_tells_webhooks(database: Database, service: Connection) -> None:
    """The statement with which version 0006 queues for webhooks writes the notice, and a look finds it."""
    asked = await ask(database)
    hook = uuid4()
    service.execute(
        """INSERT INTO webhook (id, name, url, secret, events, created_by)
           VALUES (%s, 'ops', 'https://example.com', 's', '["decision.made"]', 'cli')""",
        [hook],
    )
    assert service.execute(TO_WEBHOOKS, [asked.request_id]).fetchall() == [([0],)]
    assert await Look(database, list).find() == [Wakeup.notices(str(hook))]


def test_an_older_worker_finds_no_work(service: Connection) -> None:
    """What an older worker fetches jobs with is gone, so it begins nothing, and its log says why."""
    with pytest.raises(psycopg.errors.UndefinedFunction, match="procrastinate_fetch_job_v2"):
        service.execute(FETCH)


async def test_a_call_that_an_older_process_wrote_is_found(database: Database, service: Connection) -> None:
    """A call that came without its agent gets it, and a look of that agent finds it."""
    run_id, call_id = uuid4(), uuid4()
    service.execute(RUN, [run_id, "orders"])
    service.execute(CALL, [call_id, run_id, 1])
    assert await Look(database, lambda: ["orders"]).find() == [Wakeup.call(call_id, "orders")]
    assert await Look(database, lambda: ["others"]).find() == []


def test_calls_from_before_the_upgrade_have_their_agent(empty_url: str) -> None:
    """The upgrade gives every call that is not answered the agent of its run."""
    migrations.upgrade(empty_url, to="0006")
    waiting, done = uuid4(), uuid4()
    with psycopg.connect(Address.read(empty_url).conninfo(), autocommit=True) as connection:
        for turn, (call_id, agent) in enumerate({waiting: "orders", done: "refunds"}.items()):
            run_id = uuid4()
            connection.execute(RUN, [run_id, agent])
            connection.execute(CALL, [call_id, run_id, turn])
        connection.execute(ANSWERED, [done])
        migrations.upgrade(empty_url)
        found: dict[UUID, str | None] = dict(connection.execute("SELECT id, agent FROM tool_call").fetchall())
    assert found == {waiting: "orders", done: None}


def test_the_way_back_makes_jobs_again(empty_url: str) -> None:
    """After a downgrade to 0006 everything is there that version 0006 made, with the service's rights."""
    migrations.upgrade(empty_url, to="0006")
    before = _state(empty_url)
    migrations.upgrade(empty_url)
    migrations.downgrade(empty_url, to="0006")
    assert _state(empty_url) == before


def test_the_upgrade_gives_way(empty_url: str) -> None:
    """An upgrade that waits for somebody's lock lets others pass in between, and ends when the lock is gone."""
    migrations.upgrade(empty_url, to="0006")
    conninfo = Address.read(empty_url).conninfo()
    with psycopg.connect(conninfo) as busy, psycopg.connect(conninfo, autocommit=True) as other:
        busy.execute("SELECT FROM tool_call")
        with ThreadPoolExecutor() as pool:
            upgraded = pool.submit(migrations.upgrade, empty_url)
            while not other.execute(WAITS).fetchone():
                assert not upgraded.done()
            other.execute("SELECT FROM tool_call")  # queues behind the upgrade, until that gives way
            assert not upgraded.done()
            busy.rollback()
            upgraded.result(timeout=60)
    assert not migrations.pending(empty_url)


def _state(url: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    return objects(url, OBJECTS), objects(url, RIGHTS)
