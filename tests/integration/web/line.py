from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


@dataclass
class Line:
    """Forwards connections. `lost` answers are swallowed: the service has done the work, and nobody learns of it."""

    port: int
    lost: int = 0
    swallowed: int = 0
    says: bytes | None = None  # sent instead of the service's answer
    asked: int = 0
    url: str = ""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if self.says is not None:
                await reader.readuntil(b"\r\n\r\n")
                self.asked += 1
                writer.write(self.says)
                await writer.drain()
            else:
                there, back = await asyncio.open_connection("127.0.0.1", self.port)
                forward = asyncio.create_task(self._pump(reader, back))
                try:
                    await self._pump(there, writer, answers=True)
                finally:
                    forward.cancel()
                    back.close()
        writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if answers and self.lost:
                    self.lost -= 1
                    self.swallowed += 1
                    return
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def a_line(port: int) -> AsyncIterator[Line]:
    line = Line(port)
    server = await asyncio.start_server(line.carry, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        server.close()
