"""The database that tests share is new to each of them, whatever the one before did."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.databases import Postgres, Shared
from tests.integration.asking import ask

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'signoff' AND tablename <> 'alembic_version'"


def filled(shared: Shared) -> list[str]:
    """The tables that have rows."""
    tables = [name for (name,) in shared.owner.execute(TABLES)]
    return [name for name in tables if shared.owner.execute(f"SELECT FROM {name} LIMIT 1").rowcount]


@pytest.fixture
def lent(postgres: Postgres) -> Iterator[Postgres]:
    """One of the test's own, beside that of all the others."""
    own = Postgres(postgres.server, postgres.admin, _numbers=postgres._numbers)
    yield own
    own.retire()


async def test_nothing_is_left_of_a_test(lent: Postgres) -> None:
    """Rows, the log's final ones included, are gone; the same connections find the database empty."""
    shared = lent.lend()
    database = shared.keep("signoff tests")
    await ask(database)
    assert {"audit_event", "delivery", "approval_request"} <= set(filled(shared))
    lent.take_back()
    assert lent.lend() is shared
    assert filled(shared) == []
    await ask(database)
    with pytest.raises(psycopg.errors.RestrictViolation):
        shared.owner.execute("DELETE FROM audit_event")


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more ()",
        "DROP TRIGGER decision_is_final ON decision",
        "ALTER TABLE audit_event DISABLE TRIGGER audit_event_is_final",
        "ALTER TABLE vote ALTER COLUMN reason SET DEFAULT 'none'",
        "GRANT DELETE ON decision TO signoff_app",
        "UPDATE alembic_version SET version_num = 'none'",
    ],
)
def test_what_was_changed_is_not_used_again(lent: Postgres, change: str) -> None:
    """After a test that changed schema, rights or version, the next one gets another database."""
    name = lent.lend().name
    lent.lend().owner.execute(change)
    lent.take_back()
    assert lent.lend().name != name


def test_who_is_still_there_is_sent_away(lent: Postgres) -> None:
    """A transaction that a test left open neither keeps its locks nor its connection."""
    left = psycopg.connect(lent.lend().owner.info.dsn)
    left.execute("LOCK TABLE vote")
    lent.take_back()
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")


async def test_a_connection_in_use_is_not_handed_on(lent: Postgres) -> None:
    """Where a test has not given a connection back, the next one gets another database."""
    shared = lent.lend()
    async with shared.keep("signoff tests").connection():
        assert not shared.empty()
