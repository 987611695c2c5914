"""The multitude of the benchmarks: copies that are what the product would have written."""

from __future__ import annotations

from agent.database.driver import sql_of
from agent.database.pools import Database
from agent.store import overdue
from agent.usecases import audit
from benchmarks.ground import owner
from benchmarks.multitude import multiply, waiting
from benchmarks.waiting import seed
from slack_sandbox import SlackSandbox
from slack_sandbox.workspace import demo_workspace


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
    assert waiting(database_url) == (13, 0)


async def test_the_look_for_what_is_overdue_reads_no_table(database_url: str) -> None:
    """With hundreds that wait and none due, the sweeps' look goes through indexes alone; it comes every second."""
    async with SlackSandbox(demo_workspace(), rate_limits=False, echo=False) as slack:
        [row] = await seed(database_url, slack, 1)
    await multiply(database_url, row[1], 400)
    with owner(database_url) as connection:
        plan = [line for (line,) in connection.execute(f"EXPLAIN {sql_of(overdue._OVERDUE)}")]
    assert [line for line in plan if "Seq Scan on approval_request" in line] == []
