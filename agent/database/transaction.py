"""One transaction from its first statement to its end, which is told truly: written, not written, or not known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database import after_commit
from agent.database.address import Address
from agent.database.driver import driver_of
from agent.database.errors import BudgetExceeded, DatabaseError, DatabaseUnavailable, OutcomeUnknown
from agent.database.liveness import hang_up
from signoff.errors import SignoffError

Listener = Callable[[UUID, int], object]
"""Hears of a request, and of how many things are on record about it."""

DECISION_BUDGET = 1.2
"""Seconds. With 0.8 s to find out who clicked this stays below the three that Slack waits for an answer."""

# Ended by the server's clock: statement_timeout, idle_in_transaction_session_timeout, transaction_timeout.
_OUT_OF_TIME = {"57014", "25P03", "25P04"}


class Transaction:
    """One transaction: knows how far it got, so that its end is told truly."""

    def __init__(self, connection: AsyncConnection, address: Address, tell: Listener) -> None:
        self._connection = connection
        self._raw = driver_of(connection)
        self._address = address
        self._tell = tell
        self._committing = False
        self._blown = False

    def blow(self) -> None:
        """The time is over."""
        self._blown = True
        hang_up(self._raw)

    def out_of_time(self) -> DatabaseError:
        """What that means to the caller: nothing was written, or nobody knows."""
        if self._committing:
            return self._unknown()
        return BudgetExceeded(
            f"the database {self._address} took longer than {DECISION_BUDGET} s: nothing was written"
        )

    @asynccontextmanager
    async def transact(self) -> AsyncIterator[AsyncConnection]:
        """Commit when the block ends, roll back when it raises, and give the connection back.

        Raises DatabaseUnavailable and BudgetExceeded (nothing was written), OutcomeUnknown.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(give_back, self._connection)
            # Begun here and not by the first statement, so that what procrastinate writes through the raw
            # connection is part of it. Does no I/O: the driver sends BEGIN before the first statement.
            self._connection.sync_connection.begin()  # type: ignore[union-attr]
            after_commit.clear(self._connection)
            try:
                yield self._connection
                await self._commit()
            except Exception as error:
                if told := self._translated(error):
                    raise told from error
                raise

    async def _commit(self) -> None:
        status = self._raw.info.transaction_status
        if self._blown:
            raise self.out_of_time()
        if status == TransactionStatus.INERROR:
            # PostgreSQL would answer this COMMIT with a ROLLBACK, and the driver would not complain.
            raise DatabaseError("an error inside the transaction was passed over; it was rolled back")
        if status == TransactionStatus.UNKNOWN:
            raise DatabaseUnavailable(f"lost the database {self._address}: nothing was written")
        self._committing = True
        await self._connection.commit()
        self._committing = False
        after_commit.run_callbacks(self._connection, self._tell)

    def _translated(self, error: Exception) -> DatabaseError | None:
        """What the end of the transaction means to the caller; None: the error speaks for itself."""
        if isinstance(error, SignoffError):
            return None
        if self._raw.closed:
            if self._committing:
                return self._unknown()
            if self._blown or _sqlstate(error) in _OUT_OF_TIME:
                return self.out_of_time()
            return DatabaseUnavailable(f"lost the database {self._address}: nothing was written")
        if _sqlstate(error) == "57014":
            self._committing = False  # the server is alive and has refused
            return self.out_of_time()
        return None

    def _unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"lost the database {self._address} during COMMIT: it may or may not be written"
        )


async def give_back(connection: AsyncConnection) -> None:
    """Returns the connection to its pool, rolled back if not committed; cancelling does not stop that."""
    if not connection.in_transaction():
        await connection.close()
        return
    with suppress(exc.DBAPIError, psycopg.Error):
        await asyncio.shield(asyncio.ensure_future(connection.close()))


def _sqlstate(error: BaseException) -> str | None:
    return getattr(getattr(error, "orig", error), "sqlstate", None)
