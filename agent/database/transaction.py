"""One transaction: reads run at once; writes are sent with COMMIT.

Writes do not depend on each other's results, so all share one round trip (pipeline mode). After a failure the server
skips the rest, COMMIT included.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg import AsyncCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from sqlalchemy import CursorResult, Executable, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database.address import Address
from agent.database.driver import Statement, driver_of, pipeline, sql_of
from agent.database.errors import (
    BudgetExceeded,
    DatabaseError,
    DatabaseUnavailable,
    OutcomeUnknown,
    in_one_line,
    is_fatal,
    is_lost,
    is_not_now,
    is_out_of_time,
    refusal,
)
from agent.database.failure_log import log_failure
from agent.database.liveness import abort_reads, give_back
from agent.database.wakeups import ANNOUNCE, Wakeup, Wakeups
from agent.database.writes import Writes
from signoff.errors import SignoffError

Listener = Callable[[UUID, int], object]

DECISION_BUDGET = 1.2
"""Seconds. With 0.8 s to identify who clicked, this stays below Slack's three."""

_SAVEPOINT, _RELEASE = text("SAVEPOINT step"), text("RELEASE SAVEPOINT step")


class Transaction:
    """Reads run at once; other methods collect ``text()`` constants, sent before COMMIT."""

    def __init__(
        self, connection: AsyncConnection, address: Address, tell: Listener, wakeups: Wakeups, channel: str
    ) -> None:
        """``channel``: of announcements to other processes."""
        self.connection = connection
        self._raw = driver_of(connection)
        self._address = address
        self._tell = tell
        self._announcements = wakeups
        self._channel = channel
        self._committing = False
        self._announced = False
        self._expired = False
        self._writes = Writes()
        self._wakeups: dict[Wakeup, None] = {}
        self._start_callbacks: list[Callable[[], object]] = []
        self._callbacks: list[Callable[[], object]] = []
        self._ended: dict[UUID, int] = {}

    @property
    def unbegun(self) -> bool:
        """BEGIN goes with the first statement."""
        return self._raw.info.transaction_status == TransactionStatus.IDLE

    @property
    def has_writes(self) -> bool:
        return bool(self._writes)

    # --- while it is open ---------------------------------------------------------------------------------
    async def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> CursorResult[Any]:
        """Collected writes are not visible before a flush."""
        if self.unbegun:
            await self._raw.execute("BEGIN", prepare=False)
        return await self.connection.execute(statement, parameters)

    def add(self, statement: TextClause, **parameters: Any) -> None:
        self._writes.add(statement, parameters)

    def add_rows(
        self, statement: TextClause, rows: Sequence[Mapping[str, Any]], *, last: bool = False
    ) -> None:
        """Collect rows for a statement that reads ``:rows`` with ``json_to_recordset``, for all members together.

        ``last``: after everything else, and without two rows for the same table row: an UPDATE would count only
        one. One text for all rows costs a fraction of an array per column. The flush raises TypeError for
        values other than JSON, UUIDs, times and bytes.

        A join with these rows takes ``LIMIT (SELECT CAST(:many AS int))`` of them (all): PostgreSQL expects a hundred
        in any text and would scan a large table to find one. The SELECT hides the number, so the plan is kept.
        """
        self._writes.add_rows(statement, rows, last=last)

    def next_member(self) -> None:
        """Begin a wave's next member; members share no rows."""
        self._writes.next_member()

    def wake(self, *wakeups: Wakeup) -> None:
        self._wakeups.update(dict.fromkeys(wakeups))

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` after COMMIT, for logs, metrics and traces of facts. It must be quick and not raise."""
        self._callbacks.append(callback)

    def begin_after_commit(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` before the others, to start work."""
        self._start_callbacks.append(callback)

    def ended(self, requests: Mapping[UUID, int]) -> None:
        """``requests``: with their numbers of audit events."""
        self._ended.update(requests)

    async def flush(self) -> None:
        """Send collected writes for statements that must see them. Raises the driver's errors."""
        if self._writes:
            await self._send()

    async def _send(self, *, commit: bool = False) -> None:
        statements, self._writes = list(self._writes.statements()), Writes()
        begin, last = self.unbegun, self._raw.cursor()
        try:
            async with pipeline(self._raw), self._raw.cursor() as cursor:
                if begin:
                    await cursor.execute("BEGIN", prepare=False)
                for statement, parameters in statements:
                    await cursor.execute(sql_of(statement), parameters)
                if commit:
                    self._committing = True
                    await last.execute("COMMIT", prepare=False)
                    await self._announce()
        except psycopg.Error as error:
            refused_after_commit = last.statusmessage == "COMMIT" and error.sqlstate is not None
            if not (self._announced and refused_after_commit):
                raise
            log_failure("other processes were not notified", error, action="wakeups.lost")  # they poll
        if commit and last.statusmessage != "COMMIT":
            raise DatabaseError("PostgreSQL answered COMMIT with ROLLBACK")

    async def _announce(self) -> None:
        """In the round trip of COMMIT and in a transaction of its own, which ends after it."""
        announcement = self._announcements.announcement(tuple(self._wakeups))
        if announcement is not None:
            self._announced = True
            await self._raw.execute(ANNOUNCE, [self._channel, announcement])

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Roll back only this block if it raises; sends its collected writes."""
        self.add(_SAVEPOINT)
        await self.flush()
        try:
            yield
            await self.flush()
            self.add(_RELEASE)
        except Exception:
            self._writes = Writes()
            if not self._raw.closed:
                await self._raw.execute("ROLLBACK TO SAVEPOINT step")
                self.add(_RELEASE)
            raise

    # --- its end ------------------------------------------------------------------------------------------
    def expire(self) -> None:
        self._expired = True
        abort_reads(self._raw)

    def out_of_time(self) -> DatabaseError:
        if self._committing:
            return self._unknown()
        return BudgetExceeded(
            f"the database {self._address} took longer than the time limit of a click: nothing was written"
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Self]:
        """Raises DatabaseUnavailable, OutcomeUnknown."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(give_back, self.connection)
            try:
                yield self
                await self._commit()
            except Exception as error:
                if translated := self._translated(error):
                    raise translated from error
                raise

    async def _commit(self) -> None:
        status = self._raw.info.transaction_status
        if self._expired:
            raise self.out_of_time()
        if status == TransactionStatus.INERROR:
            # PostgreSQL would answer COMMIT with ROLLBACK, and the driver would not complain.
            raise DatabaseError("an error inside the transaction was ignored; it was rolled back")
        if status == TransactionStatus.UNKNOWN:
            raise DatabaseUnavailable(f"lost the database {self._address}: nothing was written")
        if self._writes or not self.unbegun:
            await self._send(commit=True)
        self._committing = False
        if not self._announced:
            self._announcements.send(tuple(self._wakeups))  # before the callbacks: they log
        for begin in self._start_callbacks:
            begin()
        if self._start_callbacks:
            asyncio.get_running_loop().call_soon(self._run_callbacks)
        else:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        for callback in self._callbacks:
            callback()
        for request_id, recorded in self._ended.items():
            self._tell(request_id, recorded)

    def _translated(self, error: Exception) -> DatabaseError | None:
        if isinstance(error, SignoffError):
            return None
        is_over = self._raw.closed or is_lost(error) or is_fatal(error)
        if self._committing and is_over:
            return self._unknown()
        if is_over:
            if self._expired or is_out_of_time(error):
                return self.out_of_time()
            return DatabaseUnavailable(f"lost the database {self._address}: nothing was written")
        if is_out_of_time(error):
            self._committing = False  # the server is alive and has refused
            return self.out_of_time()
        if refused := refusal(error, self._address):
            self._committing = False
            return refused
        if is_not_now(error):
            return DatabaseError(
                f"the database {self._address} refuses at the moment, nothing was written: {in_one_line(error)}"
            )
        return None

    def _unknown(self) -> OutcomeUnknown:
        self._announcements.send(tuple(self._wakeups))  # polling shows the outcome
        return OutcomeUnknown(
            f"lost the database {self._address} during COMMIT: it may or may not be written"
        )


Connection = AsyncConnection | Transaction


async def fetch(connection: Connection, statement: Statement, **parameters: Any) -> list[Any]:
    """Run a constant (or cached) statement, compiled once, without SQLAlchemy; columns are named."""
    if _unbegun(connection):
        return (await query(connection, statement, **parameters))[0]
    cursor = _driver(connection).cursor(row_factory=namedtuple_row)
    await cursor.execute(sql_of(statement), parameters)
    return await _rows(cursor)


async def query(connection: Connection, *statements: Statement, **parameters: Any) -> list[list[Any]]:
    """Send statements with the same ``parameters`` in one round trip; each sees the locks and results before it."""
    raw, begin = _driver(connection), _unbegun(connection)
    async with pipeline(raw):
        if begin:
            await raw.execute("BEGIN", prepare=False)
        cursors = [raw.cursor(row_factory=namedtuple_row) for _ in statements]
        for cursor, statement in zip(cursors, statements, strict=True):
            await cursor.execute(sql_of(statement), parameters)
    return [await _rows(cursor) for cursor in cursors]


def _unbegun(connection: Connection) -> bool:
    return isinstance(connection, Transaction) and connection.unbegun


def _driver(connection: Connection) -> psycopg.AsyncConnection[Any]:
    return driver_of(connection.connection if isinstance(connection, Transaction) else connection)


async def _rows(cursor: AsyncCursor[Any]) -> list[Any]:
    result = cursor.pgresult  # `description` would describe each column
    return await cursor.fetchall() if result is not None and result.nfields else []
