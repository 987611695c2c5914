"""One transaction: what it collects is sent by itself, and what it announces has been committed."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import exc, text
from structlog.testing import capture_logs

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.request import ExecutionStatus
from agent.usecases import executions
from agent.usecases.executions import Outcome
from tests.integration.asking import ask, claim_approved, column

Owner = psycopg.Connection[Any]
INSERT = text("INSERT INTO pause (scope, by, reason) VALUES (:scope, 'test', NULL)")
SCOPES = "SELECT scope FROM pause"


async def test_what_is_collected_is_sent_by_itself(database: Database) -> None:
    """A block that collects a write has it written when the block ends; there is nothing to call and forget."""
    async with database.transaction() as tx:
        tx.add(INSERT, scope="*")
        assert await column(database, SCOPES) == []
    assert await column(database, SCOPES) == ["*"]


async def _lose(database: Database) -> None:
    async with database.transaction() as tx:
        tx.add(INSERT, scope="lost")
        raise ZeroDivisionError


async def _lose_inside(tx: Transaction) -> None:
    async with tx.savepoint():
        tx.add(INSERT, scope="inside")
        await tx.flush()
        raise ZeroDivisionError


async def test_what_is_collected_is_dropped_with_its_block(database: Database) -> None:
    """A block that raises, or a savepoint that does, writes nothing of what it collected."""
    with pytest.raises(ZeroDivisionError):
        await _lose(database)
    async with database.transaction() as tx:
        tx.add(INSERT, scope="before")
        with pytest.raises(ZeroDivisionError):
            await _lose_inside(tx)
        tx.add(INSERT, scope="behind")
    assert sorted(await column(database, SCOPES)) == ["before", "behind"]


async def test_a_value_that_json_cannot_hold_is_refused(database: Database) -> None:
    """What has no text that PostgreSQL would read back as the same value is an error, not its `repr`."""
    with pytest.raises(TypeError, match="set"):
        async with database.transaction() as tx:
            tx.add_rows(text("SELECT :rows"), [{"who": {"U0ADA"}}])


FACTS = {"run.started", "request.opened", "request.approved", "execution.started", "execution.succeeded"}


async def _whole_way(database: Database) -> None:
    """A run, its request, the vote that decides, the claim and the report."""
    asked = await ask(database)
    claim = await claim_approved(database, asked, worker="w1")
    await executions.report(database, claim, Outcome(ExecutionStatus.SUCCEEDED, "refunded"))


async def test_facts_are_logged(database: Database) -> None:
    """Each fact of a run's way is logged under its own action."""
    with capture_logs() as logs:
        await _whole_way(database)
    assert {each["action"] for each in logs if "action" in each} >= FACTS


@pytest.mark.parametrize("table", ["agent_run", "approval_request", "decision", "execution"])
async def test_nothing_is_announced_that_did_not_commit(database: Database, owner: Owner, table: str) -> None:
    """When COMMIT fails, no log line says that the run, the request, the decision or the attempt is there."""
    owner.execute(f"""
        SET search_path = signoff;
        CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
            AS 'BEGIN RAISE EXCEPTION ''refused at COMMIT''; END';
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION at_commit()
    """)
    with capture_logs() as logs, pytest.raises((exc.DBAPIError, psycopg.Error), match="refused at COMMIT"):
        await _whole_way(database)
    announced = [each["action"] for each in logs if each.get("action") in FACTS]
    order = {"agent_run": 0, "approval_request": 1, "decision": 2, "execution": 3}
    assert announced == ["run.started", "request.opened", "request.approved"][: order[table]]
    assert await column(database, f"SELECT count(*) FROM {table}") == [0]
