"""Counts statements and round trips between a client and PostgreSQL: the cost of a use case, without a clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.database.address import Address


class WireCounter:
    def __init__(self, url: str, folder: Path) -> None:
        given = Address.read(url).parameters
        port = given["port"]
        self._server = f"{given['host']}/.s.PGSQL.{port}"
        self._own = f"{folder}/.s.PGSQL.{port}"
        self.url = f"postgresql://{given['user']}@/{given['dbname']}?host={folder}&port={port}"
        self._under_way: list[asyncio.Task[None]] = []
        self.reset()

    def reset(self) -> None:
        self.statements: list[str] = []
        """BEGIN and COMMIT included."""
        self.round_trips = 0
        """Times that a client waited for an answer."""

    @property
    def work(self) -> list[str]:
        return [each for each in self.statements if each not in {"BEGIN", "COMMIT"}]

    @property
    def commits(self) -> int:
        return self.statements.count("COMMIT")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[WireCounter]:
        async with await asyncio.start_unix_server(self._pass_on, self._own):
            yield self
            await asyncio.gather(*self._under_way)

    async def _pass_on(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._under_way.append(task)
        server, to_server = await asyncio.open_unix_connection(self._server)
        both = (
            asyncio.ensure_future(self._ask(client, to_server)),
            asyncio.ensure_future(_copy(server, to_client)),
        )
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            to_client.close()
            to_server.close()

    async def _ask(self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        length = await client.readexactly(4)  # the start-up message has no type
        to_server.write(length + await client.readexactly(int.from_bytes(length) - 4))
        prepared: dict[bytes, str] = {}
        bound = ""
        while kind := await client.read(1):
            length = await client.readexactly(4)
            body = await client.readexactly(int.from_bytes(length) - 4)
            match kind:
                case b"P":
                    name, sql, _ = body.split(b"\0", 2)
                    prepared[name] = sql.decode()
                case b"B":
                    bound = prepared[body.split(b"\0", 2)[1]]
                case b"E":
                    self.statements.append(bound)
                case b"Q":
                    self.statements.append(body[:-1].decode())
                    self.round_trips += 1
                case b"S":
                    self.round_trips += 1
                case _:
                    pass
            to_server.write(kind + length + body)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while said := await source.read(65536):
        target.write(said)
        await target.drain()
