from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from agent.database.pools import Database
from agent.database.transaction import Transaction


@dataclass
class Counted:
    """BEGIN and COMMIT are left out."""

    statements: list[str] = field(default_factory=list)
    transactions: int = 0


@contextmanager
def counting() -> Iterator[Counted]:
    counted = Counted()
    execute, transaction = psycopg.AsyncCursor.execute, Database.transaction

    async def noted(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        if query not in ("BEGIN", "COMMIT"):
            counted.statements.append(str(query))
        return await execute(self, query, params, **options)

    @asynccontextmanager
    async def entered(self: Database) -> AsyncIterator[Transaction]:
        counted.transactions += 1
        async with transaction(self) as tx:
            yield tx

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.AsyncCursor, "execute", noted)
        patch.setattr(Database, "transaction", entered)
        yield counted
