"""Limits on half-read connections, unread responses, and all connections together: time, size and number.

Beyond a number, a connection is closed that nobody misses, so that new ones, such as Slack's clicks, are served.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from slackbot.web.http.metrics import CONNECTIONS_CLOSED, OPEN_CONNECTIONS

SLACK = "slack"
"""The owner of connections with Slack's signed calls."""

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-type: application/problem+json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)
_BUSY_WORDS = (
    b'{"type": "urn:signoff:busy", "title": "Busy", "status": 503, '
    b'"detail": "There are too many connections, so this call was not waited for. Please repeat it."}'
)
NEWCOMER, CALL = 0.2, 2.0
"""Seconds for which a connection without a call, and one whose call is at work, stay in any case: those who come
meanwhile wait, which costs them less than a call that is cut off.
"""

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
    """A queue of connections that wait for bytes; beyond `most`, the oldest is closed."""

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


class Crowd:
    """All connections; when they are as many as may be, there is room for a new one by closing others.

    First those without a call: idle ones, and those that do not read or write to the end; then, as a last resort,
    those whose call is at work. Each time whoever has the most of them loses the one that was quiet longest. Waits and
    streams stay, for `Places` keeps them below the number; so do Slack's calls.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[GuardedProtocol] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: GuardedProtocol) -> None:
        self._open.add(connection)
        OPEN_CONNECTIONS.inc()

    def discard(self, connection: GuardedProtocol) -> None:
        if connection in self._open:
            self._open.remove(connection)
            OPEN_CONNECTIONS.dec()

    def make_room(self) -> bool:
        """Close a fiftieth, because finding them reads all. False: none may be closed yet."""
        now = asyncio.get_running_loop().time()
        without_call, at_work = [], []
        for each in self._open:
            quiet = now - each.quiet_since
            if not each.is_at_work:
                if quiet >= NEWCOMER:
                    without_call.append(each)
            elif not each.is_kept and quiet >= CALL:
                at_work.append(each)
        leaving = without_call or at_work
        for connection in _least_missed(leaving, max(1, self.most // 50)):
            connection.give_way()
        return bool(leaving)


def _least_missed(connections: list[GuardedProtocol], number: int) -> Iterator[GuardedProtocol]:
    by_owner: dict[str, deque[GuardedProtocol]] = {}
    for each in sorted(connections, key=lambda each: each.quiet_since):
        by_owner.setdefault(each.owner, deque()).append(each)
    for _ in range(min(number, len(connections))):
        yield max(by_owner.values(), key=len).popleft()


class _Pipeline(list[Any]):
    """Calls sent ahead: a deque, which uvicorn has here, takes 760 bytes of each connection while empty."""

    def appendleft(self, call: Any) -> None:
        self.insert(0, call)


class GuardedProtocol(HttpToolsProtocol):
    """Responses may take any time to begin. Known callers may also read them slowly, until the connection closes."""

    # Up to 30 attributes beside these, instances share the keys of their dictionaries.
    __slots__ = (
        "_armed",
        "_crowd",
        "_deadline",
        "_half_read",
        "_head",
        "_limits",
        "_message",
        "_reading",
        "_running",
        "_unread",
        "quiet_since",
    )

    def __init__(self, *, limits: ConnectionLimits, half_read: HalfRead, crowd: Crowd, **more: Any) -> None:
        super().__init__(**more)
        self.pipeline = cast("Any", _Pipeline())
        self.scope = cast("Any", {"state": {}})  # until a request begins
        self._limits = limits
        self._half_read = half_read
        self._crowd = crowd
        self.quiet_since = 0.0
        self._running: RequestResponseCycle | None = None
        self._reading = _Reading.HEAD
        self._head = 0
        self._message, self._armed = 0, (-1, _Reading.NOTHING)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._crowd.add(self)
        self.quiet_since = self.loop.time()
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clocks()
        self._crowd.discard(self)
        self._state["left"] = True  # its call goes on, without a connection, and takes no place any more
        if (place := self._state.get("place")) is not None:
            place.give_back()
        if self._running is not None:
            self._running.disconnected = True
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
        self.quiet_since = self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reading = _Reading.NOTHING
        if self.cycle is not None:  # otherwise the head was refused
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.quiet_since = self.loop.time()
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

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def _state(self) -> dict[str, Any]:
        """Of the call that is answered, which is not the latest one where calls were sent ahead."""
        return {} if self._running is None else self._running.scope["state"]

    @property
    def owner(self) -> str:
        """Who made it; empty for strangers."""
        return str(self._state.get("known") or "")

    @property
    def is_at_work(self) -> bool:
        """Its call was read, and the response is not complete."""
        running = self._running
        return running is not None and not (running.more_body or running.response_complete)

    @property
    def is_kept(self) -> bool:
        return self._state.get("place") is not None or self.owner == SLACK

    def give_way(self) -> None:
        if self._running is None or not self.is_at_work or self._running.response_started:
            self.close("crowd")
            return
        self._leave("crowd")
        self.transport.write(_BUSY % (len(_BUSY_WORDS), _BUSY_WORDS))
        self.transport.close()

    def close(self, because: str) -> None:
        self._leave(because)
        self.transport.abort()

    def _leave(self, because: str) -> None:
        self._stop_clocks()
        self._crowd.discard(self)
        CONNECTIONS_CLOSED.labels(because).inc()
        if self._running is not None:
            self._running.disconnected = True  # it writes no more
            self._running.message_event.set()

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
