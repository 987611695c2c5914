"""Waves: what is to be written while a transaction is under way goes together into the next one.

A statement, a commit and a flush cost about the same for one member as for thirty. Who comes alone waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine, Sequence
from contextvars import Context
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import structlog

from agent.database.errors import DatabaseUnavailable, OutcomeUnknown

MOST = 32
"""Members of one wave."""

log = structlog.get_logger(__name__)

Member = TypeVar("Member")
M_contra = TypeVar("M_contra", contravariant=True)
Result = TypeVar("Result")
R_co = TypeVar("R_co", covariant=True)


class Skipped(Enum):
    """Instead of a result: somebody else holds the member's rows, and the transaction did not wait for them."""

    SKIPPED = "skipped"


SKIPPED = Skipped.SKIPPED


class Send(Protocol[M_contra, R_co]):
    """One transaction for all members; returns their results in order. With ``wait`` it skips nobody."""

    def __call__(self, members: Sequence[M_contra], *, wait: bool) -> Awaitable[Sequence[R_co | Skipped]]: ...


class Settle(Protocol[M_contra, R_co]):
    """Find out whether a member was written whose COMMIT was not answered, and write it if it was not."""

    def __call__(self, member: M_contra) -> Awaitable[R_co]: ...


class _Waiting(Generic[Member, Result]):
    """A member, and who waits for its result."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def follow(self, work: Awaitable[Result]) -> None:
        """Hand on what comes of this."""
        try:
            self.tell(await work)
        except Exception as error:
            self.fail(error)
        finally:
            self.result.cancel()  # when this task is cancelled; else there is a result

    def tell(self, result: Result) -> None:
        if not self.result.done():
            self.result.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class Wave(Generic[Member, Result]):
    """Sends members together, one transaction at a time, in the order in which they came.

    A transaction that fails is repeated for each member alone, so a poisonous one fails alone; after a COMMIT whose
    outcome is not known each member is settled for itself. Members whose rows are locked go alone and wait, and hold
    nobody up. When the database is away, everybody hears that.
    """

    def __init__(self, send: Send[Member, Result], settle: Settle[Member, Result]) -> None:
        self._send = send
        self._settle = settle
        self._queue: deque[_Waiting[Member, Result]] = deque()
        self._sending = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(self, member: Member) -> Result:
        """Have this member sent; returns its result. Cancelling this takes back only what is not under way.

        Raises what the transaction raises when the member is alone in it, but never OutcomeUnknown for a wave.
        """
        waiting = _Waiting[Member, Result](member)
        self._queue.append(waiting)
        if not self._sending:
            self._sending = True
            self._start(self._send_all())
        return await waiting.result

    async def finish(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # A context of its own: log lines and spans of the wave are not those of its first member.
        task = asyncio.get_running_loop().create_task(work, name="wave", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_all(self) -> None:
        try:
            while members := self._next():
                await self._together(members)
        finally:
            self._sending = False
            for each in self._queue:  # there are none unless this task is cancelled
                each.result.cancel()

    def _next(self) -> list[_Waiting[Member, Result]]:
        members: list[_Waiting[Member, Result]] = []
        while self._queue and len(members) < MOST:
            if not (waiting := self._queue.popleft()).result.done():  # else cancelled
                members.append(waiting)
        return members

    async def _together(self, members: Sequence[_Waiting[Member, Result]]) -> None:
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
                    self._start(each.follow(self._alone(each.member)))
                else:
                    each.tell(result)

    def _failed(self, members: Sequence[_Waiting[Member, Result]], error: Exception) -> None:
        if isinstance(error, OutcomeUnknown):
            log.warning("not confirmed", action="wave.unconfirmed", members=len(members), error=str(error))
            for each in members:
                self._start(each.follow(self._settle(each.member)))
        elif isinstance(error, DatabaseUnavailable) or len(members) == 1:
            for each in members:
                each.fail(error)
        else:
            log.warning("repeated", action="wave.repeated", members=len(members), error=type(error).__name__)
            self._start(self._one_by_one(members))

    async def _one_by_one(self, members: Sequence[_Waiting[Member, Result]]) -> None:
        for each in members:
            await self._together([each])

    async def _alone(self, member: Member) -> Result:
        try:
            (result,) = await self._send([member], wait=True)
        except OutcomeUnknown:
            return await self._settle(member)
        if isinstance(result, Skipped):
            raise TypeError("a transaction that waits skips nobody")
        return result
