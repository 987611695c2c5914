"""Use cases on many members at the cost of one. A member whose rows are locked runs alone, and waits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from agent.database.pools import Database
from agent.database.transaction import Transaction


class Skipped(Enum):
    SKIPPED = "skipped"


SKIPPED = Skipped.SKIPPED

Member = TypeVar("Member")
Found = TypeVar("Found")
Result = TypeVar("Result")
Settled: TypeAlias = Result | Exception | Skipped
"""An exception is a result, too, and is committed with the others."""


class JointUseCase(ABC, Generic[Member, Found, Result]):
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
