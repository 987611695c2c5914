"""The other peer of row 1: a loop that polls every five seconds, as most home-made approvals do."""

from __future__ import annotations

import asyncio
import random
import time

import psycopg

EVERY = 5.0
LOOPS = 40


async def latency(conninfo: str) -> list[float]:
    """Milliseconds from a committed decision until a loop sees it; the loops start at random offsets."""
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as writer:
        await writer.execute("CREATE TABLE decision (n int PRIMARY KEY)")
        decided: dict[int, float] = {}

        async def loop(n: int) -> float:
            await asyncio.sleep(random.uniform(0, EVERY))
            async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as reader:
                while True:
                    found = await reader.execute("SELECT 1 FROM decision WHERE n = %s", (n,))
                    if await found.fetchone():
                        return (time.monotonic() - decided[n]) * 1e3
                    await asyncio.sleep(EVERY)

        loops = [asyncio.create_task(loop(n)) for n in range(LOOPS)]
        await asyncio.sleep(EVERY)
        for n in range(LOOPS):
            await writer.execute("INSERT INTO decision VALUES (%s)", (n,))
            decided[n] = time.monotonic()
        return await asyncio.gather(*loops)
