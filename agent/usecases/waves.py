"""Waves: members that arrive during a transaction share the next one, at about the cost of one.

A ``Wave`` queues the members of a process; a ``JointUseCase`` is one transaction for many of them. A member whose rows
are locked elsewhere is skipped, so that it delays no other, and goes alone, where it waits.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

import structlog

from agent.database.background import start_task
from agent.database.errors import DatabaseError, DatabaseUnavailable, OutcomeUnknown
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.database.transaction import Transaction

MOST = 32
"""Per wave."""

MAX_ALONE = 4
"""Going alone does not delay the wave."""

LEFT_BEHIND = 2
"""Transactions that have exceeded their ``patience``."""

_MAX_GOING_ALONE = 1000

log = structlog.get_logger(__name__)

Member = TypeVar("Member")
M_contra = TypeVar("M_contra", contravariant=True)
Found = TypeVar("Found")
Result = TypeVar("Result")
R_co = TypeVar("R_co", covariant=True)


class Skipped(Enum):
    """The result of a member that a joint transaction left out because its rows are locked elsewhere."""

    SKIPPED = "skipped"


SKIPPED = Skipped.SKIPPED

Settled: TypeAlias = Result | Exception | Skipped
"""An exception is a result, too, and is committed with the others."""


class Send(Protocol[M_contra, R_co]):
    """One transaction for all members; results in order. ``wait``: skip none."""

    def __call__(self, members: Sequence[M_contra], *, wait: bool) -> Awaitable[Sequence[Settled[R_co]]]: ...


class _Waiting(Generic[Member, Result]):
    def __init__(self, member: Member, key: Hashable) -> None:
        self.member = member
        self.key = key
        self.result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class Wave(Generic[Member, Result]):
    """Sends members together, one transaction at a time, in order of arrival.

    ``key``: members that write the same row go into different waves. ``abandon`` handles a cancelled member's result.
    ``patience``: seconds until the next transaction begins beside one that is stuck.

    After a failed transaction each member is retried alone, so that only the faulty one fails, and later goes alone.
    Members whose rows are locked go alone and wait. Every member gets an error of a database that is away or does not
    confirm a COMMIT.
    """

    def __init__(
        self,
        send: Send[Member, Result],
        *,
        key: Callable[[Member], Hashable],
        abandon: Callable[[Member, Result], Awaitable[object]] | None = None,
        patience: float | None = None,
    ) -> None:
        self._send = send
        self._key = key
        self._abandon = abandon
        self._queue: deque[_Waiting[Member, Result]] = deque()
        self._patience = patience
        self._sender: object | None = None
        """Whose transactions are waited for; another one takes its place if it is stuck."""
        self._passed = 0
        self._going_alone: set[Hashable] = set()
        self._alone = asyncio.Semaphore(MAX_ALONE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(self, member: Member) -> Result:
        """Cancelling withdraws a waiting member. After OutcomeUnknown, check behind its lock."""
        waiting = _Waiting[Member, Result](member, self._key(member))
        if waiting.key in self._going_alone:
            self._start(self._go_alone(waiting))
        else:
            self._queue.append(waiting)
            if self._sender is None:
                self._begin()
        return await waiting.result

    def _begin(self) -> None:
        self._sender = me = object()
        self._start(self._send_all(me))

    async def _send_all(self, me: object) -> None:
        try:
            while self._sender is me and (members := self._next()):
                with self._passable():
                    await self._send_together(members)
        finally:
            if self._sender is me:
                self._sender = None
                for each in self._queue:  # unless this task is cancelled
                    each.result.cancel()
            else:
                self._passed -= 1

    def _next(self) -> list[_Waiting[Member, Result]]:
        members: list[_Waiting[Member, Result]] = []
        later: list[_Waiting[Member, Result]] = []
        taken: set[Hashable] = set()  # two members of one row would each decide on what it was before
        while self._queue and len(members) < MOST:
            waiting = self._queue.popleft()
            if waiting.result.done():  # cancelled
                continue
            (later if waiting.key in taken else members).append(waiting)
            taken.add(waiting.key)
        self._queue.extendleft(reversed(later))
        return members

    async def _send_together(self, members: Sequence[_Waiting[Member, Result]]) -> None:
        try:
            results = await self._send([each.member for each in members], wait=False)
        except Exception as error:
            self._failed(members, error)
        except BaseException:
            for each in members:
                each.result.cancel()
            raise
        else:
            for each, result in zip(members, results, strict=True):
                if isinstance(result, Skipped):
                    self._start(self._go_alone(each))
                else:
                    self._tell(each, result)

    def _failed(self, members: Sequence[_Waiting[Member, Result]], error: Exception) -> None:
        if len(members) == 1 or isinstance(error, DatabaseUnavailable | OutcomeUnknown):
            for each in members:
                each.fail(error)
        else:
            log.warning("repeated", action="wave.repeated", members=len(members), error=type(error).__name__)
            for each in members:
                self._start(self._go_alone(each))

    async def _go_alone(self, waiting: _Waiting[Member, Result]) -> None:
        try:
            async with self._alone:
                (result,) = await self._send([waiting.member], wait=True)
            self._going_alone.discard(waiting.key)
            self._tell(waiting, cast("Result | Exception", result))  # a waiting transaction skips nobody
        except Exception as error:
            if not isinstance(error, DatabaseError) and len(self._going_alone) < _MAX_GOING_ALONE:
                self._going_alone.add(waiting.key)
            waiting.fail(error)
        finally:
            waiting.result.cancel()  # if this task is cancelled

    def _tell(self, waiting: _Waiting[Member, Result], result: Result | Exception) -> None:
        if isinstance(result, Exception):
            waiting.fail(result)
        elif not waiting.result.done():
            waiting.result.set_result(result)
        elif self._abandon is not None:
            self._start(self._leave(self._abandon(waiting.member, result)))

    async def _leave(self, work: Awaitable[object]) -> None:
        try:
            await work
        except DatabaseError as error:
            log_failure("a result was left behind", error, action="wave.left_behind")
        except Exception:
            log.exception("a result was left behind", action="wave.left_behind")

    @contextmanager
    def _passable(self) -> Iterator[None]:
        """A transaction that is stuck must not keep later votes from their deadlines: another sender may begin."""
        if self._patience is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(self._patience, self._pass)
        try:
            yield
        finally:
            timer.cancel()

    def _pass(self) -> None:
        if self._passed == LEFT_BEHIND:
            return
        self._sender, self._passed = None, self._passed + 1
        if self._queue:
            log.warning("a slow transaction is passed", action="wave.passed", waiting=len(self._queue))
            self._begin()

    def _start(self, work: Coroutine[object, None, None]) -> None:
        # Log lines and spans of the wave do not belong to its first member.
        task = start_task(work, "wave", Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)


class JointUseCase(ABC, Generic[Member, Found, Result]):
    """One transaction for many members: lock and read all, decide on each, write all."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def send(self, members: Sequence[Member], *, wait: bool) -> list[Settled[Result]]:
        """Members must not share rows. ``wait``: skip none."""
        async with self._db.transaction() as tx:
            found = await self.lock(tx, members, wait=wait)
            return [
                await self._settle(tx, member, each, wait=wait)
                for member, each in zip(members, found, strict=True)
            ]

    async def _settle(
        self, tx: Transaction, member: Member, found: Found | Skipped, *, wait: bool
    ) -> Settled[Result]:
        if isinstance(found, Skipped):
            return self.missing(member) if wait else SKIPPED
        tx.next_member()
        return await self.act(tx, member, found, wait=wait)

    @abstractmethod
    async def lock(
        self, tx: Transaction, members: Sequence[Member], *, wait: bool
    ) -> Sequence[Found | Skipped]:
        """Lock and read in one round trip. SKIPPED: missing or, without ``wait``, locked."""

    @abstractmethod
    def missing(self, member: Member) -> Result | Exception:
        """The result for a member without rows."""

    @abstractmethod
    async def act(self, tx: Transaction, member: Member, found: Found, *, wait: bool) -> Settled[Result]:
        """Collect the member's writes; without ``wait``, wait for no other lock."""
