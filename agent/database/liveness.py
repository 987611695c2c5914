"""Connections that have died: none is handed to a user, and pending reads end at once."""

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

from agent.database.background import start_task
from agent.database.driver import driver_of

LAST_RETURN = 1.0
"""Seconds."""

_returning: set[asyncio.Task[None]] = set()


def abort_reads(connection: psycopg.AsyncConnection[Any]) -> None:
    """Pending reads fail at once, through a duplicate: the driver owns the descriptor."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


async def give_back(connection: AsyncConnection) -> None:
    """Return a connection rolled back; close one with an open pipeline: the next user would read its answers."""
    if not connection.invalidated and driver_of(connection).info.pipeline_status != PipelineStatus.OFF:
        await connection.invalidate()
    if connection.invalidated or driver_of(connection).info.transaction_status == TransactionStatus.IDLE:
        await connection.close()  # asks the driver nothing, so nothing can be cancelled
        return
    returning = start_task(_roll_back(connection), "return of a connection")
    _returning.add(returning)
    returning.add_done_callback(_returning.discard)
    await asyncio.shield(returning)


async def wait_for_returns() -> None:
    """Let connections whose users were cancelled come back before their pools close."""
    loop = asyncio.get_running_loop()
    if mine := [each for each in _returning if each.get_loop() is loop]:
        await asyncio.wait(mine, timeout=LAST_RETURN)


async def _roll_back(connection: AsyncConnection) -> None:
    try:
        await driver_of(connection).rollback()
    except psycopg.Error:  # lost, or broken by the end of its user
        await connection.invalidate()
    await connection.close()


def watch(engine: AsyncEngine) -> None:
    """Discard connections that the server closed; a broken one does not empty the pool."""
    event.listen(engine.sync_engine, "checkout", _refuse_abandoned)
    event.listen(engine.sync_engine, "handle_error", _keep_other_connections)


def _refuse_abandoned(dbapi_connection: Any, _record: object, _proxy: object) -> None:
    raw: psycopg.AsyncConnection[Any] = dbapi_connection.driver_connection
    if raw.closed or _has_something_to_read(raw.fileno()):
        raise exc.DisconnectionError("the server has closed this connection")


def _has_something_to_read(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _keep_other_connections(context: ExceptionContext) -> None:
    context.invalidate_pool_on_disconnect = False
