"""The worker: takes hints off the queues and looks at what they point to.

Truth is in our tables; a hint that is lost, doubled or fails costs a look, never a fact. So jobs have no locks, are
deleted when they end however they end, and the sweep finds what nobody looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import structlog
from procrastinate import App
from procrastinate.jobs import Status
from procrastinate.worker import Worker as QueueWorker

from agent.database import jobs
from agent.runtime.calls import advance_call
from agent.runtime.model_turn import advance_run
from agent.runtime.services import Services

log = structlog.get_logger(__name__)

Notify = Callable[[str], None]
"""Begins to tell a webhook, or people by e-mail, what is due; does not wait for it."""

POLL = 0.25
"""Seconds between looks at a queue: a notification that arrives during a fetch is missed."""

RESTART_AFTER = 1.0
"""Seconds before a queue's worker that ended (the database was away) is started again."""


class Worker:
    """Works on all queues in this process, each with its own concurrency, until stopped."""

    def __init__(
        self,
        services: Services,
        conninfo: str,
        notify: Notify,
        *,
        concurrency: int = 20,
        drain_seconds: float = 30.0,
    ) -> None:
        self._services = services
        self._notify = notify
        self._drain_seconds = drain_seconds
        self._concurrency = {jobs.RUNS: concurrency, jobs.CALLS: concurrency, jobs.DELIVERIES: 10}
        self._conninfo = conninfo
        self._tasks: list[asyncio.Task[None]] = []
        self._heart: asyncio.Task[None] | None = None
        self._queue_workers: dict[str, QueueWorker] = {}
        self._stopping = asyncio.Event()
        self._alive: set[str] = set()

    @property
    def alive(self) -> bool:
        """Whether every queue is being worked on now."""
        return self._alive == set(jobs.QUEUES)

    @property
    def connections(self) -> int:
        """How many connections to the database it opens at most, beside those of the service's pools."""
        return jobs.CONNECTIONS * len(jobs.QUEUES)

    async def start(self) -> None:
        """Begin; a database that is away is waited for."""
        for queue in jobs.QUEUES:
            self._tasks.append(asyncio.create_task(self._keep_working(queue), name=f"worker:{queue}"))
        self._heart = asyncio.create_task(self._services.heartbeat.run(), name="heartbeat")

    async def stop(self) -> None:
        """Take no more hints, and let what is under way end within the drain time."""
        self._stopping.set()
        for worker in self._queue_workers.values():
            worker.stop()  # type: ignore[no-untyped-call]
        # The first cancellation asks for a drain as well. Alone it can be lost: up to Python 3.11 `asyncio.wait_for`,
        # in which psycopg waits, drops one that comes together with what it waits for.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._heart is not None:  # last: what is under way keeps its lease until it ends
            self._heart.cancel()
            await asyncio.gather(self._heart, return_exceptions=True)

    def _new_app(self) -> App:
        """A procrastinate application with our tasks; one periodic task keeps its worker from returning early."""
        app = jobs.application(self._conninfo)

        @app.task(name=jobs.ADVANCE_RUN, queue=jobs.RUNS)
        async def advance(run_id: str) -> None:
            await advance_run(self._services, UUID(run_id))

        @app.task(name=jobs.EXECUTE_CALL, queue=jobs.CALLS)
        async def execute(call_id: str) -> None:
            await advance_call(self._services, UUID(call_id))

        @app.task(name=jobs.SEND_NOTICES, queue=jobs.DELIVERIES)
        async def send_notices(target: str) -> None:
            self._notify(target)

        @app.periodic(cron="*/5 * * * *")
        @app.task(name="prune", queue=jobs.DELIVERIES)
        async def prune(timestamp: int) -> None:
            """Jobs whose worker died stay behind as being done; the sweep has long hinted anew."""
            for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=60):
                await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)

        return app

    def _new_queue_worker(self, app: App, queue: str) -> QueueWorker:
        return QueueWorker(
            app,
            queues=[queue],
            name=f"{self._services.worker}:{queue}",
            concurrency=self._concurrency[queue],
            fetch_job_polling_interval=POLL,
            listen_notify=True,
            delete_jobs="always",
            install_signal_handlers=False,
            shutdown_graceful_timeout=self._drain_seconds,
        )

    async def _keep_working(self, queue: str) -> None:
        while not self._stopping.is_set():
            try:
                async with self._new_app().open_async() as app:
                    if self._stopping.is_set():
                        return
                    self._alive.add(queue)
                    self._queue_workers[queue] = self._new_queue_worker(app, queue)
                    await self._queue_workers[queue].run()  # type: ignore[no-untyped-call]
            except Exception as error:  # whatever ends a worker, the next one is started
                log.warning(
                    "a worker ended",
                    action="worker.ended",
                    queue=queue,
                    error=str(error) or type(error).__name__,
                )
            finally:
                self._alive.discard(queue)
            if not self._stopping.is_set():
                await asyncio.sleep(RESTART_AFTER)
