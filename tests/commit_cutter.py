"""Breaks a connection to PostgreSQL at a COMMIT: before the server receives it, or before the client is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from agent.database.address import Address

_IDLE = b"Z\0\0\0\5I"
"""The server's message that a transaction has ended."""

Cut = Literal["before", "after"]


class CommitCutter:
    def __init__(self, url: str, folder: Path) -> None:
        given = Address.read(url).parameters
        port = given["port"]
        self._server = f"{given['host']}/.s.PGSQL.{port}"
        self._own = f"{folder}/.s.PGSQL.{port}"
        self.url = f"postgresql://{given['user']}@/{given['dbname']}?host={folder}&port={port}"
        self.cuts = 0
        self._next: Cut | None = None

    def cut_next(self, cut: Cut) -> None:
        """Break the connection of the next COMMIT."""
        self._next = cut

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CommitCutter]:
        async with await asyncio.start_unix_server(self._pass_on, self._own):
            yield self

    async def _pass_on(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_unix_connection(self._server)
        cut = asyncio.Event()

        async def ask() -> None:
            while said := await client.read(65536):
                if self._next is not None and (at := said.find(b"COMMIT")) >= 0:
                    way, self._next = self._next, None
                    self.cuts += 1
                    cut.set()
                    if way == "before":  # the statements that travel with COMMIT do arrive
                        to_server.write(said[: said.rindex(b"P", 0, at)])
                        await to_server.drain()
                        return
                to_server.write(said)
                await to_server.drain()

        async def answer() -> None:
            unheard = b""
            while said := await server.read(65536):
                if cut.is_set():  # the client does not learn that the COMMIT succeeded
                    unheard += said
                    if unheard.endswith(_IDLE):
                        return
                    continue
                to_client.write(said)
                await to_client.drain()

        both = asyncio.ensure_future(ask()), asyncio.ensure_future(answer())
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            to_client.close()
            to_server.close()
