"""Three connection pools, and transactions that report exactly what is known.

Clicks have their own pool, so that workers do not delay people, and a time limit, because Slack waits three seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast
from uuid import UUID

import psycopg
import structlog
from psycopg import sql
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from agent.database.address import APP_ROLE, SCHEMA, Address
from agent.database.driver import driver_of
from agent.database.errors import (
    BudgetExceeded,
    DatabaseError,
    DatabaseRefuses,
    DatabaseUnavailable,
    DatabaseUnusable,
    OutcomeUnknown,
    in_one_line,
    is_fatal,
    refusal,
)
from agent.database.liveness import give_back, wait_for_returns, watch
from agent.database.precedence import Precedence
from agent.database.transaction import DECISION_BUDGET, Listener, Transaction
from agent.database.wakeups import ANNOUNCE, Wakeups
from signoff.errors import SignoffError

__all__ = [
    "BudgetExceeded",
    "Database",
    "DatabaseError",
    "DatabaseRefuses",
    "DatabaseUnavailable",
    "DatabaseUnusable",
    "OutcomeUnknown",
    "PoolUse",
]

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

POOL_WAIT = 5.0
DECISION_POOL_WAIT = 0.4
MAX_NAME = 63
IDLE = 20
"""Seconds: a stopped worker must not keep its locks."""

_LIMIT_TRANSACTIONS = "SELECT set_config('transaction_timeout', %s, false)"
_GRACE = 0.1  # a body that does not wait for the database does not notice the closed connection


@dataclass(frozen=True, slots=True)
class PoolUse:
    """A snapshot of one connection pool: its name, the connections in use, and the most it opens."""

    name: str
    in_use: int
    most: int


class Database:
    """One database, with the rights of `role` (None: the login's)."""

    def __init__(
        self,
        url: str,
        schema: str = SCHEMA,
        role: str | None = APP_ROLE,
        *,
        pool_size: int = 8,
        decision_pool_size: int = 8,
        application_name: str = "signoff",
        announces: bool = False,
    ) -> None:
        """Does not connect. ``announces``: notify other processes of work that this one does not take."""
        self.address = Address.read(url, schema, role)
        self._name = application_name
        self._sizes = {"write": pool_size, "read": pool_size, "decide": decision_pool_size}
        self._listeners: set[Listener] = set()
        self.precedence = Precedence()
        self.wakeups = Wakeups(partial(self.announce, "") if announces else None)
        budget = int(DECISION_BUDGET * 1000)
        self._writing = self._engine(pool_size, POOL_WAIT, idle_in_transaction_session_timeout=IDLE * 1000)
        self._reading = self._engine(pool_size, POOL_WAIT, read_only=True)
        # The server releases the locks of a client that hung up; transaction_timeout where it exists.
        self._deciding = self._engine(
            decision_pool_size,
            DECISION_POOL_WAIT,
            statement_timeout=budget,
            idle_in_transaction_session_timeout=budget,
        )

    @property
    def schema(self) -> str:
        return self.address.schema

    def conninfo(self, application_name: str | None = None) -> str:
        return self.address.conninfo(application_name or self._name)

    def on_ending(self, listener: Listener) -> Callable[[], None]:
        """Hint ``listener``, which must be quick, at each request that ends here. Returns an unsubscriber."""
        self._listeners.add(listener)
        return partial(self._listeners.discard, listener)

    def pools(self) -> list[PoolUse]:
        named = {"write": self._writing, "read": self._reading, "decide": self._deciding}
        return [PoolUse(name, _in_use(engine), self._sizes[name]) for name, engine in named.items()]

    async def open(self) -> None:
        """Raises DatabaseUnusable (too old), DatabaseUnavailable (which and why)."""
        for engine in (self._writing, self._reading, self._deciding):
            connection = await self._checkout(engine, POOL_WAIT)
            await connection.close()

    async def close(self) -> None:
        """Connections in use close when returned."""
        await self.wakeups.finish()
        await wait_for_returns()
        for engine in (self._writing, self._reading, self._deciding):
            await engine.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Send what the block collected and commit, or roll back. Raises OutcomeUnknown."""
        connection = await self._checkout(self._writing, POOL_WAIT)
        async with self._begin(connection).run() as tx:
            yield tx

    @asynccontextmanager
    async def decision_transaction(self, deadline: float = math.inf) -> AsyncIterator[Transaction]:
        """`transaction` for a click: at most 0.4 s for a connection, then 1.2 s; both end by `deadline` (monotonic).

        At the end we hang up: cancelling would wait for a server that does not answer. Raises BudgetExceeded and
        DatabaseUnavailable (nothing was written), OutcomeUnknown (COMMIT not acknowledged).
        """
        connection = await self._checkout(self._deciding, min(DECISION_POOL_WAIT, deadline - monotonic()))
        tx = self._begin(connection)
        budget = min(DECISION_BUDGET, deadline - monotonic())
        timer = asyncio.get_running_loop().call_later(budget, tx.expire)
        clock = asyncio.timeout(budget + _GRACE)
        try:
            async with clock, tx.run():
                yield tx
        except TimeoutError as error:
            if clock.expired():
                raise tx.out_of_time() from error
            raise
        finally:
            timer.cancel()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """Each statement sees what is committed by then."""
        async with self._by_itself(await self._checkout(self._reading, POOL_WAIT)) as connection:
            yield connection

    async def read(
        self,
        view: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async with self.connection() as connection:
            return await view(connection, *args, **kwargs)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """All statements see what the first sees."""
        async with self._by_itself(await self._checkout(self._reading, POOL_WAIT)) as connection:
            await driver_of(connection).execute("BEGIN ISOLATION LEVEL REPEATABLE READ", prepare=False)
            yield connection

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[AsyncConnection]:
        """Each statement commits alone, so no lock outlasts it."""
        checked_out = await self._checkout(self._writing, POOL_WAIT)
        async with self._by_itself(checked_out, writes=True) as connection:
            yield connection

    async def announcements(self, topic: str = "") -> AsyncGenerator[str]:
        """Yield "" at the beginning, then what any process announces: by default, work. Raises DatabaseUnavailable."""
        conninfo = self.conninfo(f"{self._name} listens")
        try:
            async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel(topic))))
                yield ""
                while True:
                    await _readable(connection.fileno())
                    connection.pgconn.consume_input()
                    while (notify := connection.pgconn.notifies()) is not None:
                        yield notify.extra.decode()
        except psycopg.Error as error:
            raise refusal(error, self.address) or self._away(error) from error

    async def announce(self, topic: str = "", message: str = "") -> None:
        async with self.counting() as connection:
            await driver_of(connection).execute(ANNOUNCE, [self._channel(topic), message])

    def _channel(self, topic: str) -> str:
        """PostgreSQL cuts a longer name where it is listened to, and refuses it where something is announced."""
        name = self.schema + topic
        return name if len(name) <= MAX_NAME else sha256(name.encode()).hexdigest()[:MAX_NAME]

    @asynccontextmanager
    async def _by_itself(
        self, connection: AsyncConnection, *, writes: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        raw = driver_of(connection)
        try:
            yield connection
        except Exception as error:
            if isinstance(error, SignoffError):
                raise
            if raw.closed or is_fatal(error):
                raise DatabaseUnavailable(
                    f"lost the database {self.address}: {in_one_line(error)}"
                ) from error
            if refused := refusal(error, self.address, writes=writes):
                raise refused from error
            raise
        finally:
            await give_back(connection)

    def _engine(self, size: int, wait: float, *, read_only: bool = False, **settings: int) -> AsyncEngine:
        if read_only:
            settings["default_transaction_read_only"] = 1
        else:
            # Written rows are found by an index. Plans are kept, also for triggers and foreign keys; one made while a
            # table was small would scan it, at a cost that grows with every row until the next ANALYZE.
            settings["enable_seqscan"] = 0
        conninfo = self.address.conninfo(self._name, **settings)

        async def connect() -> psycopg.AsyncConnection[Any]:
            connection = await psycopg.AsyncConnection.connect(conninfo)
            version = connection.info.server_version
            encoding = connection.info.parameter_status("server_encoding")
            if problem := self.address.refusal(version, encoding):
                await connection.close()
                raise problem
            if "statement_timeout" in settings and version >= 170_000:
                await connection.set_autocommit(True)
                await connection.execute(_LIMIT_TRANSACTIONS, [str(settings["statement_timeout"])])
                await connection.set_autocommit(False)
            return connection

        engine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=connect,
            pool_size=size,
            max_overflow=0,
            pool_use_lifo=True,  # its statements are prepared
            pool_timeout=wait,
            use_native_hstore=False,
            isolation_level="AUTOCOMMIT",  # a Transaction sends BEGIN and COMMIT itself
            pool_reset_on_return=None,  # `give_back` rolls back what is open
            skip_autocommit_rollback=True,
        )
        watch(engine)
        return engine

    def _begin(self, connection: AsyncConnection) -> Transaction:
        return Transaction(connection, self.address, self._tell, self.wakeups, self._channel(""))

    def _tell(self, request_id: UUID, recorded: int) -> None:
        """The commit stands, whatever a listener raises."""
        for listener in tuple(self._listeners):
            try:
                listener(request_id, recorded)
            except Exception:
                log.exception("a listener failed", action="database.listener_failed")

    async def _checkout(self, engine: AsyncEngine, wait: float) -> AsyncConnection:
        try:
            async with asyncio.timeout(wait):
                return await engine.connect()
        except (TimeoutError, exc.TimeoutError) as error:
            raise BudgetExceeded(
                f"no free connection to the database {self.address} within {wait:.2g} s"
            ) from error
        except (exc.DBAPIError, exc.InvalidRequestError, OSError) as error:
            # InvalidRequestError: a dead connection's replacement was dead, too.
            raise self._away(error) from error

    def _away(self, error: Exception) -> DatabaseUnavailable:
        return DatabaseUnavailable(f"cannot reach the database {self.address}: {in_one_line(error)}")


async def _readable(file: int) -> None:
    """Sleep until there is something to read. psycopg's `notifies` wakes up ten times a second."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(file)


def _in_use(engine: AsyncEngine) -> int:
    return cast("QueuePool", engine.pool).checkedout()
