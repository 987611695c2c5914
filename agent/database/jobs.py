"""The jobs by name. A job is a hint ("look at this now"), deferred inside the transaction of the fact that causes it.

Handlers register themselves where the process is put together; whoever causes a job needs only its name here.
No locks are used: a job's lock neither excludes a second run after a missed heartbeat nor heals itself, so the
rows that a hint points to say themselves whether there is anything to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Job
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

RUNS: Final = "runs"
CALLS: Final = "calls"
DELIVERIES: Final = "deliveries"
CONNECTIONS: Final = 7
"""What a worker of one queue opens at most: a pool of six, and one that listens for notifications."""
QUEUES: Final = (RUNS, CALLS, DELIVERIES)

ADVANCE_RUN: Final = "advance_run"
EXECUTE_CALL: Final = "execute_call"
SEND_NOTICES: Final = "send_notices"

PEOPLE_FIRST: Final = 1
"""The priority of what somebody waits to see; everything else has 0."""

# Only builds and sends the statement, over the caller's own connection; its pool is never opened.
_DEFERRER = App(connector=PsycopgConnector())


@dataclass(frozen=True, slots=True)
class Hint:
    """One job to defer: its name, its queue, the key of what to look at, optionally not before when.

    Within a queue, those of a higher ``priority`` are taken first.
    """

    task: str
    queue: str
    args: tuple[tuple[str, str], ...]
    not_before: datetime | None = None
    priority: int = 0


def advance_run(run_id: UUID, not_before: datetime | None = None) -> Hint:
    """Make the run's next model turn, if it has anything to hear."""
    return Hint(ADVANCE_RUN, RUNS, (("run_id", str(run_id)),), not_before)


def execute_call(call_id: UUID, *, decided: bool = False) -> Hint:
    """Do whatever the call's state asks for next. ``decided``: by somebody who is looking at the card now."""
    return Hint(EXECUTE_CALL, CALLS, (("call_id", str(call_id)),), priority=PEOPLE_FIRST if decided else 0)


def send_notices(target: str) -> Hint:
    """Tell a webhook (by its id), or people by e-mail (``agent.domain.outbound.MAIL``), what is due."""
    return Hint(SEND_NOTICES, DELIVERIES, (("target", target),))


async def defer(connection: AsyncConnection[object], hints: list[Hint]) -> None:
    """Defer these inside the connection's transaction, in one round trip, each once."""
    if hints:
        await _DEFERRER.job_manager.batch_defer_jobs_async(
            [_job(hint) for hint in dict.fromkeys(hints)], connection=connection
        )


def _job(hint: Hint) -> Job:
    return Job(
        queue=hint.queue,
        task_name=hint.task,
        task_kwargs=dict(hint.args),
        priority=hint.priority,
        lock=None,
        queueing_lock=None,
        scheduled_at=hint.not_before,
    )


def application(conninfo: str) -> App:
    """For a worker: an application on connections of its own, on which every statement is a transaction.

    That a hint was taken or done need not survive a crash of the server (at worst it is looked at again), so
    nothing waits for the disk here.
    """
    return App(
        connector=PsycopgConnector(
            conninfo=conninfo,
            pool_factory=_unchecked,
            configure=_in_haste,
            min_size=2,
            max_size=CONNECTIONS - 1,
        )
    )


def _unchecked(**options: Any) -> AsyncConnectionPool[Any]:
    """A pool that does not ask each time whether a connection still lives: a dead one ends its worker.

    The next worker comes with connections of its own.
    """
    return AsyncConnectionPool(**(options | {"check": None}))


async def _in_haste(connection: AsyncConnection[Any]) -> None:
    await connection.set_autocommit(True)  # among the pool's kwargs it would clash with the listener's own
    await connection.execute("SET synchronous_commit = off")
    # The job table is usually empty, and PostgreSQL plans the fetch for that, once for each session. Without these
    # settings the plan compares each job with all others: 200 ms and more for each job of a backlog of 1,000.
    await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
