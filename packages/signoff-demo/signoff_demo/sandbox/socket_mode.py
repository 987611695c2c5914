"""Socket Mode.

Source: Slack, "Using Socket Mode": each payload goes to one of at most ten connections, which begin with `hello`;
`disconnect` announces that a connection will be replaced.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
import uuid
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from signoff_demo.sandbox.changes import Changes
from signoff_demo.sandbox.delivery_report import TIMED_OUT, DeliveryReport
from signoff_demo.sandbox.faults import FaultKind, Faults
from signoff_demo.sandbox.refusal import Json

MAX_CONNECTIONS = 10


@dataclass(eq=False)
class Connection:
    """An open Socket Mode connection, with the acknowledgements that it waits for by envelope id."""

    ws: web.WebSocketResponse
    transport: asyncio.Transport | None
    waiting: dict[str, asyncio.Future[Json]] = field(default_factory=dict)


class SocketModeServer:
    """A server of Socket Mode that sends each payload to one of its connections, in turn."""

    def __init__(self, app_id: str, faults: Faults, changes: Changes, ping_seconds: float = 10.0) -> None:
        self.connections: list[Connection] = []
        self._app_id = app_id
        self._faults = faults
        self._changes = changes
        self._ping_seconds = ping_seconds
        self._tickets: set[str] = set()
        self._turns = itertools.count()

    def new_ticket(self) -> str:
        """A ticket opens one connection."""
        ticket = str(uuid.UUID(bytes=secrets.token_bytes(16)))
        self._tickets.add(ticket)
        return ticket

    async def handle(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets or self._faults.take_fault("socket", FaultKind.REFUSE_TICKET):
            self._tickets.discard(ticket)
            return web.Response(status=403, text="not allowed")
        self._tickets.discard(ticket)
        ws = web.WebSocketResponse(heartbeat=self._ping_seconds)
        await ws.prepare(request)
        too_many = self._faults.take_fault("socket", FaultKind.TOO_MANY_WEBSOCKETS)
        if too_many or len(self.connections) >= MAX_CONNECTIONS:
            await ws.send_json(_disconnect("too_many_websockets"))
            await ws.close()
            return ws
        connection = Connection(ws, request.transport)
        self.connections.append(connection)
        self._changes.publish({"type": "connection"})
        try:
            await ws.send_json(self._hello())
            if connection.transport and self._faults.take_fault("socket", FaultKind.CUT_AFTER_HELLO):
                connection.transport.abort()
            if leaving := self._faults.take_fault("socket", FaultKind.ASK_TO_LEAVE):
                for _ in range(2):
                    await ws.send_json(_disconnect(leaving.code))
            async for message in ws:
                if message.type is WSMsgType.TEXT:
                    self._acknowledged(connection, message.data)
        finally:
            self._forget(connection)
        return ws

    async def send(
        self, kind: str, payload: Json, accepts_response: bool, seconds: float, **more: object
    ) -> DeliveryReport:
        """Wait up to `seconds` for the acknowledgement."""
        began = time.monotonic()
        connection = self._next()
        if connection is None:
            return DeliveryReport(False, 0.0, error=TIMED_OUT)
        envelope: Json = {
            "envelope_id": str(uuid.uuid4()),
            "payload": payload,
            "type": kind,
            "accepts_response_payload": accepts_response,
            **more,
        }
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        connection.waiting[envelope["envelope_id"]] = future
        try:
            async with asyncio.timeout(seconds):
                await connection.ws.send_str(json.dumps(envelope))
                if self._faults.take_fault("socket", FaultKind.DUPLICATE_DELIVERY):
                    again = self._next() or connection
                    await again.ws.send_str(json.dumps(envelope))
                answer = await future
        except (TimeoutError, ConnectionError, asyncio.InvalidStateError):
            return DeliveryReport(False, time.monotonic() - began, error=TIMED_OUT)
        finally:
            connection.waiting.pop(envelope["envelope_id"], None)
        response = answer.get("payload") if accepts_response else None
        return DeliveryReport(True, time.monotonic() - began, 200, response)

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask every connection to reconnect, as Slack does every few hours. The app closes it; acknowledgements until
        then count.
        """
        leaving, self.connections[:] = list(self.connections), []
        for connection in leaving:
            await connection.ws.send_json(_disconnect(reason))
        self._changes.wake()

    async def cut(self) -> None:
        """Drop every connection without notice."""
        for connection in list(self.connections):
            self._forget(connection)
            if connection.transport is not None:
                connection.transport.abort()

    async def close(self) -> None:
        for connection in list(self.connections):
            self._forget(connection)
            await connection.ws.close()

    def _hello(self) -> Json:
        return {
            "type": "hello",
            "num_connections": len(self.connections),
            "debug_info": {"host": "sandbox", "build_number": 1, "approximate_connection_time": 18060},
            "connection_info": {"app_id": self._app_id},
        }

    def _next(self) -> Connection | None:
        open_ones = [each for each in self.connections if not each.ws.closed]
        return open_ones[next(self._turns) % len(open_ones)] if open_ones else None

    def _acknowledged(self, connection: Connection, text: str) -> None:
        try:
            answer = json.loads(text)
        except ValueError:
            return
        envelope_id = answer.get("envelope_id") if isinstance(answer, dict) else None
        future = connection.waiting.get(str(envelope_id))
        if future is None or future.done() or self._faults.take_fault("socket", FaultKind.DROP_ACK):
            return
        future.set_result(answer)

    def _forget(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
        for future in connection.waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError())
        self._changes.wake()


def _disconnect(reason: str) -> Json:
    return {"type": "disconnect", "reason": reason, "debug_info": {"host": "sandbox"}}
