"""Further ways to a database: as its owner, and before any migration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from agent.database.address import Address
from tests.integration.command import signoff  # noqa: F401 - a fixture


@pytest.fixture
def empty_url(postgres: Any) -> Iterator[str]:
    """A database in which nothing has been made."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """The owner of everything in the test's database, with every statement on its own."""
    with psycopg.connect(Address.read(database_url).conninfo("owner"), autocommit=True) as connection:
        yield connection
