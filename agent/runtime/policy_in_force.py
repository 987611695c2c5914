"""This process's policy, kept equal to the one in force."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.errors import OutdatedPolicy, PolicyError
from agent.domain.policy import Policy
from agent.usecases import policy as policies

T = TypeVar("T")

Read = Callable[[str, str], Policy]
"""Parses a text; the second argument names it in messages. Raises PolicyError."""

LOOK = 1.0
"""Seconds between checks, if nothing else checks."""

MAX_TRIES = 5
"""Evaluations of one call while policies change."""

log = structlog.get_logger(__name__)


def read_policy(source: str, name: str) -> Policy:
    """Requires a process that can send mail."""
    return checkpoints.load(source, filename=name)


class PolicyInForce:
    """A process that cannot load the policy in force evaluates and claims nothing, and reports why."""

    def __init__(self, db: Database, policy: Policy, read: Read = read_policy) -> None:
        self._db = db
        self._policy = policy
        self._read = read
        self._listeners: list[Callable[[Policy], object]] = []
        self._loading = asyncio.Lock()
        self.seen = policy.epoch
        """Loadable or not."""
        self.problem: str | None = None

    @property
    def policy(self) -> Policy:
        """Raises OutdatedPolicy if the policy in force cannot be loaded here."""
        if self.problem is not None:
            raise OutdatedPolicy(self.problem, unreadable=True)
        return self._policy

    @property
    def last_loaded(self) -> Policy:
        """For what goes on while the policy in force cannot be loaded, such as channels and votes, not for claims."""
        return self._policy

    def on_change(self, listener: Callable[[Policy], object]) -> None:
        """``listener`` must be quick and not raise."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Raises OutdatedPolicy."""
        async with self._loading:
            stored = await policies.in_force(self._db)
            if stored is not None and stored.epoch != self.seen:
                self._take(stored.epoch, stored.source)
        if self.problem is not None:
            raise OutdatedPolicy(self.problem, unreadable=True)

    def _take(self, epoch: int, source: str) -> None:
        self.seen = epoch
        try:
            policy = replace(self._read(source, f"policy {epoch}"), epoch=epoch)
        except PolicyError as error:
            first, *others = error.problems
            more = f" (and {len(others)} more)" if others else ""
            self.problem = f"the policy in force cannot be loaded by this process: {first}{more}"
            log.error("nothing is evaluated or claimed", action="policy.unreadable", error=self.problem)  # noqa: TRY400
            return
        self._policy, self.problem = policy, None
        log.info("policy loaded", action="policy.loaded", epoch=epoch, digest=policy.digest.hex())
        for listener in self._listeners:
            listener(policy)

    async def watch(self, seconds: float = LOOK) -> None:
        """Load new policies in processes whose executor does not check."""
        while True:
            try:
                if await policies.epoch_in_force(self._db) != self.seen:
                    await self.load()
            except OutdatedPolicy:
                pass  # logged
            except Exception as error:  # the next check finds it
                log_failure("the policy could not be checked", error, action="policy.unloaded")
            await asyncio.sleep(seconds)

    async def judged(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat ``work`` under each new policy. Raises OutdatedPolicy if it cannot be loaded here."""
        for _ in range(MAX_TRIES - 1):
            try:
                return await work()
            except OutdatedPolicy as error:
                if error.unreadable:
                    raise
                await self.load()
        return await work()
