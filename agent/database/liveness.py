"""Whether the other end of a connection is still there, and how to leave when it does not answer."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from sqlalchemy import event, exc
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from agent.database.driver import driver_of


def hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """End the conversation at once: whoever waits for an answer on it gets an error now.

    The socket is shut down through a duplicate: closing the descriptor would leave the waiter with a number that may
    soon belong to another file.
    """
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


async def give_back(connection: AsyncConnection) -> None:
    """Return the connection to its pool, rolled back if not committed; cancelling does not stop that.

    One with an open pipeline is closed: the next user would read the answers that are still due.
    """
    if not connection.invalidated and driver_of(connection).info.pipeline_status != PipelineStatus.OFF:
        await connection.invalidate()
    if connection.invalidated or driver_of(connection).info.transaction_status == TransactionStatus.IDLE:
        await connection.close()  # asks the server nothing
        return
    with suppress(exc.DBAPIError, psycopg.Error):
        await asyncio.shield(asyncio.ensure_future(_roll_back(connection)))


async def _roll_back(connection: AsyncConnection) -> None:
    if driver_of(
        connection
    ).closed:  # what was asked through the driver, SQLAlchemy does not know to have failed
        await connection.invalidate()
    await connection.close()


def watch(engine: AsyncEngine) -> None:
    """Hand out no connection whose server has gone, without asking the server.

    An idle connection that has something to read has the server's farewell; a look costs no round trip. One broken
    connection does not empty the pool.
    """
    event.listen(engine.sync_engine, "checkout", _refuse_abandoned)
    event.listen(engine.sync_engine, "handle_error", _keep_the_others)


def _refuse_abandoned(dbapi_connection: Any, _record: object, _proxy: object) -> None:
    raw: psycopg.AsyncConnection[Any] = dbapi_connection.driver_connection
    if raw.closed or _has_something_to_read(raw.fileno()):
        raise exc.DisconnectionError("the server has closed this connection")


def _has_something_to_read(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _keep_the_others(context: ExceptionContext) -> None:
    context.invalidate_pool_on_disconnect = False
