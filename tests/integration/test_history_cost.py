"""What reads the whole history (export, replay, retention) goes page by page: its statements and its memory."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.database.pools import Database
from agent.usecases import audit, judgements, retention
from benchmarks.decided import multiply_decided, originals
from benchmarks.ground import owner
from benchmarks.side import BOT_TOKEN
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.workspace import demo_workspace
from slackbot.cli import export
from slackbot.settings import Settings
from tests.statement_counter import counting

PAGE = 50
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)


async def test_export_takes_statements_and_memory_by_the_page(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many decided requests take no more memory to export, and statements for each page of them only."""
    monkeypatch.setattr(export, "PAGE", PAGE)
    async with SlackSandbox(demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False) as slack:
        of = await originals(slack, database_url, tmp_path)
    statements, peaks = [], []
    kinds: dict[str, int] = {}
    async with Database(database_url, pool_size=2) as db:
        for after, more in ((0, 297), (297, 600)):
            await multiply_decided(database_url, of, more, after=after)
            until = datetime.now(UTC) + timedelta(days=1)
            with counting() as counted:
                tracemalloc.start()
                try:
                    kinds = {}
                    async for record in export.records(db, Settings(), BEGIN, until, audit=True):
                        kinds[record["kind"]] = kinds.get(record["kind"], 0) + 1
                    peaks.append(tracemalloc.get_traced_memory()[1])
                finally:
                    tracemalloc.stop()
            assert (kinds["request"], kinds["vote"]) == (3 + after + more, 3 + after + more)
            statements.append(len(counted.statements))
        events, problems = await audit.find_problems(db)
        assert (events, problems) == (kinds["event"], [])
    assert peaks[1] < 1.5 * peaks[0]
    pages = 600 * (2 + 1) + (kinds["event"] - kinds["event"] * 300 // 900)
    assert statements[1] - statements[0] <= pages / PAGE + 4


async def test_a_replay_takes_a_statement_for_each_page(database_url: str) -> None:
    """Evaluations are read a thousand at a time, and no more of them are in memory."""
    with owner(database_url) as connection:
        connection.execute(
            "INSERT INTO judgement (id, policy_epoch, agent, tool, traits, action, facts_failed, verdict, because,"
            " principal) SELECT CAST('f' || lpad(to_hex(n), 31, '0') AS uuid), 0, 'a', 't', '{}', NULL, false, 'run',"
            " '', 'key:x' FROM generate_series(1, 3500) AS n"
        )
    async with Database(database_url) as db:
        await db.open()
        with counting() as counted:
            pages = [len(page) async for page in judgements.recorded(db, BEGIN)]
    assert (sum(pages), max(pages)) == (3500, 1000)
    assert len(counted.statements) <= len(pages) + 1


async def test_retention_takes_statements_by_the_batch(database_url: str, tmp_path: Path) -> None:
    """A batch of runs takes the same statements however many runs it has, and so does a history of batches."""
    async with SlackSandbox(demo_workspace(), bot_token=BOT_TOKEN, rate_limits=False, echo=False) as slack:
        of = await originals(slack, database_url, tmp_path)
    with owner(database_url) as connection:
        connection.execute("UPDATE agent_run SET status = 'completed', inputs = heard")
        connection.execute("UPDATE tool_call SET state = 'answered', answered_at = clock_timestamp()")
    await multiply_decided(database_url, of, 397)
    async with Database(database_url, role=None) as db:
        before = await retention.cutoff(db, timedelta(seconds=-60))
        counts = {}
        for size in (10, 20, 100):  # the first finds the chain new
            with counting() as counted:
                runs = 0
                async for batch in retention.erase(db, before, by="cli:test", batch_size=size):
                    runs += batch.runs
                    if runs == 2 * size:
                        break
            assert runs == 2 * size
            counts[size] = len(counted.statements)
    assert counts[20] == counts[100] < 50, counts
