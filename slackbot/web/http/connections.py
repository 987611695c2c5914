"""Limits on half-read connections and unread responses: time, size and number.

Beyond the number, the longest wait is closed, so that new connections, such as Slack's clicks, are served. A limit on
all connections would turn Slack away.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slackbot.web.http.metrics import CONNECTIONS_CLOSED

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits until a request is complete: bytes of a head, seconds for head and body.

    ``linger``: seconds for the rest of a body that was answered early. ``unread``: seconds in which a caller must read
    some of a response. ``half_read``: connections that may wait for bytes, idle ones of unknown callers included, and
    those on which unknown callers do not read.

    ``idle`` seconds without a request close a connection: longer than client pools (httpx: 5) and load balancers (AWS:
    60) keep one, so that no request is sent into a closing connection.
    """

    head_bytes: int = 65_536
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    linger: float = 5.0
    unread: float = 30.0
    half_read: int = 256
    idle: int = 75


class _Reading(Enum):
    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


class HalfRead:
    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: OrderedDict[GuardedProtocol, None] = OrderedDict()

    def add(self, connection: GuardedProtocol) -> None:
        self._waiting[connection] = None
        self._waiting.move_to_end(connection)
        if len(self._waiting) > self._most:
            oldest, _ = self._waiting.popitem(last=False)
            oldest.close("crowd")

    def discard(self, connection: GuardedProtocol) -> None:
        self._waiting.pop(connection, None)


class GuardedProtocol(HttpToolsProtocol):
    """Responses may take any time to begin. Known callers may also read them slowly, until the connection closes."""

    def __init__(self, *, limits: ConnectionLimits, half_read: HalfRead, **more: Any) -> None:
        super().__init__(**more)
        self.scope = cast("Any", {"state": {}})  # until a request begins
        self._limits = limits
        self._half_read = half_read
        self._reading = _Reading.HEAD
        self._head = 0
        self._message, self._armed = 0, (-1, _Reading.NOTHING)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clocks()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading is _Reading.NOTHING:
            self._next_message()
        if self._reading is _Reading.HEAD:
            self._head += len(data)
        super().data_received(data)
        if self._reading is _Reading.HEAD and self._head > self._limits.head_bytes:
            self._refuse_head()
        if not self.transport.is_closing():
            self._arm()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._reading is _Reading.NOTHING:
            self._next_message()

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limits.head_bytes:
            self._refuse_head()
            return
        self._reading = _Reading.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reading = _Reading.NOTHING
        if self.cycle is not None:  # otherwise the head was refused
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._closes()
        elif self._reading is _Reading.BODY:
            self._wait(self._limits.linger)
        elif self._reading is _Reading.NOTHING and not self._is_known():
            self._half_read.add(self)

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)
            self._closes()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._closes()

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self._is_known():
            self._watch_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_watching()

    def close(self, because: str) -> None:
        self._stop_clocks()
        CONNECTIONS_CLOSED.labels(because).inc()
        self.transport.abort()

    def _next_message(self) -> None:
        self._reading, self._head = _Reading.HEAD, 0
        self._message += 1

    def _arm(self) -> None:
        now = (self._message, self._reading)
        if now == self._armed:
            return
        self._armed = now
        self._disarm()
        if self._reading is _Reading.HEAD:
            self._wait(self._limits.head_seconds)
        elif self._reading is _Reading.BODY:
            self._wait(self._limits.body_seconds)
        elif self.cycle.response_complete:
            self._wait(self._limits.linger)  # the rest of a body answered early

    def _wait(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self.close, self._reading.value)
        self._half_read.add(self)

    def _disarm(self) -> None:
        if self._unread is None:
            self._half_read.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _closes(self) -> None:
        """A closing transport waits until its last byte is read, without a time limit of its own."""
        if self.transport.is_closing() and self in self.connections:  # otherwise it is closed
            self._disarm()
            self._watch_unread()

    def _watch_unread(self) -> None:
        self._stop_watching()
        if not self._is_known():
            self._half_read.add(self)
        self._expect_less_than(self.transport.get_write_buffer_size())

    def _expect_less_than(self, size: int) -> None:
        self._unread = self.loop.call_later(self._limits.unread, self._check_unread, size)

    def _check_unread(self, before: int) -> None:
        """Nothing is written meanwhile, so fewer bytes mean that the caller reads."""
        size = self.transport.get_write_buffer_size()
        if size < before:
            self._expect_less_than(size)
        else:
            self.close("unread")

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop_clocks(self) -> None:
        self._stop_watching()
        self._disarm()

    def _is_known(self) -> bool:
        return bool(self.scope["state"].get("known"))

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            CONNECTIONS_CLOSED.labels("size").inc()
            self.transport.write(_TOO_LARGE)
            self.transport.close()
            self._closes()
