"""Whether the other end of a connection is still there, and how to leave when it does not answer."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from typing import Any

import psycopg
from sqlalchemy import event, exc
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine


def hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """Ends the conversation at once: whoever waits for an answer on it gets an error now.

    Shutting the socket down does that; closing its descriptor would leave the waiter waiting for a number
    that may soon belong to another file. The duplicate leaves the driver's own descriptor to the driver.
    """
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def watch(engine: AsyncEngine) -> None:
    """Keeps connections whose server has gone from being handed out, without asking the server.

    An idle connection has nothing to read: if there is something, it is the server's farewell. That costs
    one look at the socket, where a ping would cost every click a round trip. One broken connection says
    nothing about the others, so it does not empty the pool.
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
