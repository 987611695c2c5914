"""Row 4: record a vote's writes, roll them back, and replay them on a bare connection."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from agent.database.address import Address
from agent.database.driver import driver_of
from agent.database.pools import Database
from agent.database.transaction import Transaction
from benchmarks.waiting import Row, Waiting, count

WARM = 5

Statement = tuple[Any, Any]


class Undone(Exception):
    """Rolls all writes back."""


class Recorder(Database):
    statements: list[Statement]

    @asynccontextmanager
    async def decision_transaction(self, deadline: float = math.inf) -> AsyncIterator[Transaction]:
        sent: list[Statement] = []

        class Noting(psycopg.AsyncCursor[Any]):
            async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
                sent.append((query, params))
                return await super().execute(query, params, **options)

        async with super().decision_transaction(deadline) as tx:
            raw = driver_of(tx.connection)
            plain, raw.cursor_factory = raw.cursor_factory, Noting
            try:
                yield tx
                await tx.flush()
            finally:
                raw.cursor_factory = plain
            self.statements = sent
            raise Undone


class Row4:
    """Rates are transactions per second on one connection."""

    def __init__(self, url: str, db: Database) -> None:
        self._url = url
        self._db = db
        self._recorded: list[list[Statement]] = []

    async def ours(self, requests: list[Row]) -> float:
        ballots = [Waiting(*each).ballot() for each in requests]
        begun = time.monotonic()
        for ballot in ballots:
            await count(self._db, ballot)
        return len(ballots) / (time.monotonic() - begun)

    async def record(self, requests: list[Row]) -> list[str]:
        """Return one vote's statements, reads included."""
        self._recorded = []
        sent: list[Statement] = []
        async with Recorder(self._url, application_name="bench recorder") as db:
            for each in requests:
                try:
                    await count(db, Waiting(*each).ballot())
                except Undone:
                    sent = db.statements
                    self._recorded.append([said for said in sent if _writes(str(said[0]))])
        return [" ".join(str(query).split())[:70] for query, _ in sent]

    async def bare(self, *, pipeline: bool) -> float:
        """The first few executions prepare the statements and are not counted."""
        play = self._at_once if pipeline else self._in_turn
        conninfo = Address.read(self._url, role="signoff_app").conninfo("bench bare")
        async with await psycopg.AsyncConnection.connect(conninfo, prepare_threshold=0) as raw:
            for statements in self._recorded[:WARM]:
                await play(raw, statements)
            counted = self._recorded[WARM:]
            begun = time.monotonic()
            for statements in counted:
                await play(raw, statements)
            return len(counted) / (time.monotonic() - begun)

    async def _in_turn(self, raw: psycopg.AsyncConnection[Any], statements: list[Statement]) -> None:
        for query, parameters in statements:
            await raw.execute(query, parameters)
        await raw.commit()

    async def _at_once(self, raw: psycopg.AsyncConnection[Any], statements: list[Statement]) -> None:
        async with raw.pipeline():
            await self._in_turn(raw, statements)


def _writes(sql: str) -> bool:
    words = sql.upper()
    return "FOR UPDATE" not in words and any(word in words for word in ("INSERT", "UPDATE", "DELETE"))
