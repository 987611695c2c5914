from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.databases import TEMPLATE, Postgres
from tests.stress import rounds

AT_ONCE = 4 * len(os.sched_getaffinity(0))
"""A service that dies and restarts takes a fifth of a core."""
SECONDS = 300.0
"""A round takes less than a minute."""

Play = Callable[[str, Path], Awaitable[None]]


async def side_by_side(plays: Mapping[str, Play], postgres: Postgres, folder: Path) -> None:
    """Some at a time. Failures are raised at the end, each with the name of its play."""
    failures: list[Exception] = []
    places = asyncio.Semaphore(AT_ONCE)

    async def play(name: str) -> None:
        async with places:
            try:
                await _play(plays[name], postgres, folder / name)
            except Exception as error:  # the others continue
                error.add_note(f"in {name}")
                failures.append(error)
                rounds.done(failed=True)
            else:
                rounds.done()

    rounds.begin(len(plays))
    async with asyncio.TaskGroup() as group:
        for name in plays:
            group.create_task(play(name))
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(plays)} rounds failed", failures)


async def _play(play: Play, postgres: Postgres, folder: Path) -> None:
    folder.mkdir()  # noqa: ASYNC240 - in memory, at once
    async with _database(postgres) as url, asyncio.timeout(SECONDS):
        await play(url, folder)


@asynccontextmanager
async def _database(postgres: Postgres) -> AsyncIterator[str]:
    """Does not block the others."""
    name = await asyncio.to_thread(postgres.create, TEMPLATE)
    try:
        yield postgres.url(name)
    finally:
        await asyncio.to_thread(postgres.drop, name)
