"""Our side of rows without HTTP. Run as `python -m benchmarks.ours URL API`.

The worker delivers to the Slack sandbox unless `BENCH_SILENT` is set. Only the model is replaced: it answers at once,
in this process. The event loop is uvloop, as in the service.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from agent.database.pools import Database
from agent.runtime.agents import Registry
from agent.runtime.executor import Executor
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.immediate_claims import process_votes
from agent.runtime.model import Model, Reply
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.services import Services, worker_name
from agent.store.outbox import Destination
from agent.usecases.requests import Votes
from benchmarks import payments, recorded
from benchmarks.side import BOT_TOKEN, Command, serve
from benchmarks.waiting import TEAM, Row, Waiting
from slackbot.delivery.drain import Drain
from slackbot.delivery.poller import DeliveryPoller
from slackbot.service import logs
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.directory import Directory

SILENT = "BENCH_SILENT"
CLAIMED = "SELECT count(*) FROM execution WHERE status = 'claimed'"
UNFINISHED = """
SELECT (SELECT count(*) FROM tool_call WHERE state IN ('new', 'ready', 'refused', 'claimed'))
     + (SELECT count(*) FROM agent_run WHERE inputs > heard AND status IN ('working', 'pending_approval'))
"""


class AtOnce(Model):
    async def complete(self, *_: Any, **__: Any) -> Reply:
        return Reply("Done.", (), 10, "stop")


class Starts:
    """Receives tool starts, from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[int]] = {}
        payments.listener = lambda order, at: self._loop.call_soon_threadsafe(self._heard, order, at)

    def of(self, order: int) -> asyncio.Future[int]:
        """Resolves when the tool has started for this order, to that time."""
        return self._waiting.setdefault(order, self._loop.create_future())

    def _heard(self, order: int, at: int) -> None:
        if not self.of(order).done():
            self.of(order).set_result(at)


class Ours:
    def __init__(self, votes: Votes, starts: Starts) -> None:
        self._votes = votes
        self._db = votes.db
        self._starts = starts

    def commands(self) -> dict[str, Command]:
        every = (self.latency, self.throughput, self.idle, self.cpu)
        return {command.__name__: command for command in every}

    async def latency(self, requests: list[Row], apart: float) -> list[float]:
        """Milliseconds from `vote` to the tool's start, sequentially."""
        taken = []
        for each in read(requests):
            begun = time.monotonic_ns()
            await self._votes.cast(each.ballot())
            taken.append((await self._started(each) - begun) / 1e6)
            await asyncio.sleep(apart)
        return taken

    async def throughput(self, requests: list[Row], at_once: int) -> float:
        """Votes committed and calls executed per second, until the last result is committed."""
        queue = list(read(requests))
        waiting = iter(queue)
        begun = time.monotonic()

        async def voter() -> None:
            for each in waiting:
                await self._votes.cast(each.ballot())

        await asyncio.gather(*(voter() for _ in range(at_once)))
        await asyncio.gather(*(self._started(each) for each in queue))
        while await self._count(CLAIMED):
            await asyncio.sleep(0.01)
        return len(queue) / (time.monotonic() - begun)

    async def idle(self) -> int:
        """Wait until only messages are left; returns the number of calls and runs it waited for."""
        first = left = await self._count(UNFINISHED)
        while left:
            await asyncio.sleep(0.05)
            left = await self._count(UNFINISHED)
        return first

    async def cpu(self) -> float:
        return time.process_time()

    async def _started(self, each: Waiting) -> int:
        async with asyncio.timeout(60):
            return await self._starts.of(each.order)

    async def _count(self, statement: str) -> int:
        async with self._db.connection() as connection:
            return int((await connection.exec_driver_sql(statement)).scalar_one())


def read(requests: Iterable[Row]) -> Iterable[Waiting]:
    return (Waiting(*each) for each in requests)


@asynccontextmanager
async def working(db: Database, api_url: str) -> AsyncIterator[Votes]:
    name = worker_name()
    client = SlackClient(BOT_TOKEN, api_url)
    me = await client.auth_test()
    drain = Drain(db, client, Directory(client, me["team_id"], me["user_id"]), name)
    services = Services(
        db=db,
        policies=PolicyInForce(db, payments.POLICY),
        registry=Registry([payments.PAYMENTS]),
        model=AtOnce("none", api_key="none"),
        heartbeat=Heartbeat(db, name),
        worker=name,
        destination=lambda channel: Destination(TEAM, channel or "C0REVIEW"),
    )
    worker = Executor(services, lambda _: None, drain_seconds=3)
    poller = DeliveryPoller(db, me["team_id"], drain)
    silent = SILENT in os.environ
    await worker.start()
    if not silent:
        poller.start()
    try:
        while not (worker.alive and (silent or poller.alive)):
            await asyncio.sleep(0.01)
        yield process_votes(services, worker.calls)
    finally:
        if not silent:
            await poller.stop(3)
        await worker.stop()
        await services.user_code.stop()


async def main(url: str, api_url: str) -> None:
    logs.configure("INFO", "json")
    async with Database(url, application_name="bench ours") as db:
        await db.open()
        starts = Starts()
        async with working(db, api_url) as votes:
            await serve(Ours(votes, starts).commands())


async def vote_alone(url: str) -> None:
    """Row 4: without other load, our vote and the bare transactions alternate."""
    async with Database(url, application_name="bench vote") as db:
        await db.open()
        rows = recorded.Row4(url, db)
        await serve({"ours": rows.ours, "record": rows.record, "bare": rows.bare})


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:3]) if len(sys.argv) == 3 else vote_alone(sys.argv[1]))
