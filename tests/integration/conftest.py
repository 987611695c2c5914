from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from tests.databases import Postgres
from tests.integration.command import signoff  # noqa: F401 - a fixture
from tests.patience import lengthen_budgets


@pytest.fixture(autouse=True)
def _patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets are long, unless the test is about them."""
    if request.node.get_closest_marker("budgets") is None:
        lengthen_budgets(monkeypatch)


@pytest.fixture
def empty_url(postgres: Any) -> Iterator[str]:
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def unused_database(postgres: Postgres) -> None:
    """A new database, for statements that count pages: they would find rows that other tests deleted."""
    postgres.retire()


@pytest.fixture
def owner(postgres: Postgres, database_url: str) -> psycopg.Connection[Any]:
    """In autocommit mode."""
    return postgres.lend().owner


@pytest.fixture(autouse=True)
async def _no_task_outlives_its_test() -> AsyncIterator[None]:
    """All tests share a loop."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
