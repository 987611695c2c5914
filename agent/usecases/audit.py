"""The audit log is verified against its chains, saved heads, and the rows of consent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from agent.database.errors import DatabaseUnavailable, in_one_line
from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain.audit import (
    AuditEvent,
    ChainProblem,
    Head,
    StoredEvent,
    VerifiedHead,
    against_kept,
    beginning,
    confirmed,
    cut_since,
    verify_chain,
)
from agent.store import audit, authority_differences, request_differences

_COMPARISONS = {**request_differences.COMPARISONS, **authority_differences.COMPARISONS}

SUBJECTS = 150
"""Chains that are read together."""

_AHEAD = 10 * SUBJECTS
"""Verified heads that are read ahead: so many chains may be gone before the others are read in full."""

NEVER = datetime.min.replace(tzinfo=UTC)

OnProgress = Callable[[str, int, int], object]
"""What is verified, how many events are, and of how many."""


async def heads(db: Database, page: int = audit.PAGE) -> AsyncIterator[Head]:
    """Heads to be saved elsewhere, by subject; each is its chain's when its page is read."""
    async with db.connection() as connection:
        async for found in audit.heads(connection, page):
            for head in found:
                yield head


@dataclass(frozen=True, slots=True)
class Resumption:
    """An earlier verification that this one goes on from.

    ``verified``: what it handed to ``keep``, in that order. Events up to a verified head are not read again unless that
    was before ``again``. ``keep`` gets what the next one goes on from; a head whose chain is no longer its own stays.
    ``finish`` is called once ``keep`` has got all of it.
    """

    verified: Iterable[VerifiedHead]
    keep: Callable[[VerifiedHead], object]
    finish: Callable[[], object] = lambda: None
    again: datetime = NEVER


async def find_problems(
    db: Database,
    kept: Iterable[Head] = (),
    *,
    page: int = audit.PAGE,
    resumption: Resumption | None = None,
    on_progress: OnProgress = lambda *_: None,
) -> tuple[int, list[ChainProblem]]:
    """All chains, their rows and the saved heads (``kept``), in one snapshot; with the number of events that were read.

    Whoever has the service's login can append any event. So each part is read by itself, and one that cannot be read is
    a problem, not the end. ``page``: events of one chain in memory at a time.
    """
    found: list[ChainProblem] = []
    chains = _Chains(found, page, resumption, on_progress)
    saved = iter(kept)
    try:
        async with db.snapshot() as connection:
            await audit.set_savepoint(connection)
            async with _part(connection, "heads", found):
                gone = await audit.heads_without_events(connection)
                found += [ChainProblem(head.subject, head.seq, "its events are gone") for head in gone]
                chains.total = await audit.count_recorded(connection)
            async with _part(connection, "chains", found):
                await chains.walk(connection)
            await chains.finish(connection)
            while heads := list(islice(saved, audit.PAGE)):
                chains.show("saved heads")
                await _compare_heads(connection, heads, found)
            for name, compare in _COMPARISONS.items():
                chains.show(name)
                async with _part(connection, name, found):
                    found += await compare(connection)
    except DatabaseUnavailable as lost:
        if not found:
            raise
        found.append(ChainProblem("database", 0, f"the rest is not verified: {lost}"))
    return chains.read, found


@asynccontextmanager
async def _part(connection: Connection, subject: str, found: list[ChainProblem]) -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        await audit.back_to_savepoint(connection)  # raises if the connection is lost
        found.append(ChainProblem(subject, 0, f"cannot be read: {in_one_line(error)}"))


async def _compare_heads(connection: Connection, heads: list[Head], found: list[ChainProblem]) -> list[Head]:
    """Returns those that differ, or about which that cannot be said."""
    differing = heads
    async with _part(connection, "saved heads", found):
        rows = await audit.differing_heads(connection, heads)
        differing = [head for head, _, _ in rows]
        for head, is_another, last in rows:
            if is_another:
                found.append(ChainProblem(head.subject, head.seq, "is not the event of the saved head"))
            else:
                lost = [ChainProblem(head.subject, head.seq, "is the event of the saved head, and gone")]
                found += cut_since(head, Head(head.subject, last, b"")) or lost
    return differing


class _Chains:
    """Short chains are confirmed many at a time, while PostgreSQL reads the next. Any other is verified by itself."""

    def __init__(
        self,
        found: list[ChainProblem],
        page: int,
        resumption: Resumption | None,
        on_progress: OnProgress,
    ) -> None:
        self.read = self.skipped = self.total = 0
        self._found = found
        self._page = page
        self._resumption = resumption or Resumption((), lambda _: None)
        self._earlier = _Earlier(iter(self._resumption.verified))
        self._walked = False
        self._on_progress = on_progress
        self._now = datetime.now(UTC)

    def show(self, part: str) -> None:
        self._on_progress(part, self.read + self.skipped, self.total)

    async def walk(self, connection: Connection) -> None:
        first = await audit.subjects(connection, None, SUBJECTS)
        ahead = asyncio.create_task(self._read(connection, first)) if first else None
        try:
            while ahead is not None:
                group = await ahead
                ahead = None
                if group.following:
                    ahead = asyncio.create_task(self._read(connection, group.following))
                    for _ in range(3):  # until it is sent
                        await asyncio.sleep(0)
                left = self._confirm(group)
                if ahead is not None and (left or group.passed):
                    await asyncio.wait([ahead])  # there is one connection
                for subject in left:
                    async with _part(connection, subject, self._found):
                        await self._verify(connection, subject, group)
                if group.passed:
                    group.passed = await self._compare(connection, group.passed)
                for verified in group.in_order():
                    self._resumption.keep(verified)
                self.show("chains")
            self._walked = True
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.wait([ahead])

    async def finish(self, connection: Connection) -> None:
        """Verified heads whose chains are gone, or stood at another place."""
        if not self._walked:
            return
        while rest := self._earlier.rest(audit.PAGE):
            for verified in await self._compare(connection, rest):
                self._resumption.keep(verified)
        self._resumption.finish()

    async def _compare(self, connection: Connection, passed: list[VerifiedHead]) -> list[VerifiedHead]:
        """Returns those to be kept. The chain of any other has been read in full, at its place."""
        differing = await _compare_heads(connection, [each.head for each in passed], self._found)
        return [each for each in passed if each.head in differing]

    async def _read(self, connection: Connection, subjects: list[str]) -> _Group:
        group = _Group(subjects)
        self._earlier.match(group)
        group.trusted = {
            subject: verified.head
            for subject, verified in group.known.items()
            if verified.at >= self._resumption.again
        }
        fresh = [subject for subject in subjects if subject not in group.trusted]
        trusted, last = list(group.trusted.values()), subjects[-1]
        try:
            group.survey = await audit.survey(connection, fresh, trusted, last, SUBJECTS)
            group.following = group.survey.following
        except Exception:
            await audit.back_to_savepoint(connection)
            try:
                group.following = await audit.subjects(connection, last, SUBJECTS)
            except Exception:
                await audit.back_to_savepoint(connection)
                raise
        return group

    def _confirm(self, group: _Group) -> list[str]:
        """Returns the subjects that are to be verified one by one."""
        if group.survey is None:
            return group.subjects
        left = []
        for subject in group.subjects:
            trusted, end = group.trusted.get(subject), None
            if trusted is not None:
                if subject not in group.survey.changed:
                    group.ends[subject], end = group.known[subject], trusted
                    self.skipped += end.seq
            elif events := group.survey.chains.get(subject):
                end, earlier = confirmed(subject, events), group.known.get(subject)
                if end and earlier and earlier.head.hash != _hash_at(events, earlier.head.seq):
                    end = None
                if end:
                    group.ends[subject] = VerifiedHead(end, self._now)
                    self.read += end.seq
            if end is None:
                left.append(subject)
        return left

    async def _verify(self, connection: Connection, subject: str, group: _Group) -> None:
        before, earlier = len(self._found), group.known.get(subject)
        kept, at = earlier.head if earlier else None, self._now
        head, gone, end = None, [], beginning(subject)
        async with _part(connection, subject, self._found):
            head = await audit.head(connection, subject)
            gone = [] if head else [ChainProblem(subject, 0, "its head is gone")]
        if earlier and subject in group.trusted and await audit.continues(connection, earlier.head):
            end, at = earlier.head, earlier.at
        self.skipped += end.seq
        async for page in audit.pages(connection, subject, self._page, end.seq or None):
            self._found += verify_chain(page, after=end) + against_kept(page, kept)
            self.read, end = self.read + len(page), Head(subject, page[-1].seq, page[-1].hash)
            self.show("chains")
        self._found += (verify_chain((), head, end) if head else gone) + cut_since(kept, end)
        if len(self._found) == before:
            group.ends[subject] = VerifiedHead(end, at)


def _hash_at(events: Sequence[StoredEvent], seq: int) -> bytes | None:
    return events[seq - 1][-1] if 1 <= seq <= len(events) else None


class _Group:
    """Chains that are read together; ``ends``: of those without problems."""

    def __init__(self, subjects: list[str]) -> None:
        self.subjects = subjects
        self.known: dict[str, VerifiedHead] = {}
        self.trusted: dict[str, Head] = {}
        self.passed: list[VerifiedHead] = []
        self.survey: audit.Survey | None = None
        self.following: list[str] = []
        self.ends: dict[str, VerifiedHead] = {}

    def in_order(self) -> Iterator[VerifiedHead]:
        yield from self.passed
        for subject in self.subjects:
            if verified := self.ends.get(subject) or self.known.get(subject):
                yield verified


class _Earlier:
    """Verified heads in the order of their chains: one that does not turn up in time is known to nobody."""

    def __init__(self, verified: Iterator[VerifiedHead]) -> None:
        self._verified = verified
        self._ahead: dict[str, VerifiedHead] = {}

    def match(self, group: _Group) -> None:
        for subject in group.subjects:
            for each in islice(self._verified, max(0, _AHEAD - len(self._ahead))):
                if self._ahead.setdefault(each.head.subject, each).head != each.head:
                    group.passed.append(each)
            if subject not in self._ahead:
                continue
            while (each := self._ahead.pop(next(iter(self._ahead)))).head.subject != subject:
                group.passed.append(each)
            group.known[subject] = each

    def rest(self, most: int) -> list[VerifiedHead]:
        found = [self._ahead.pop(subject) for subject in list(islice(self._ahead, most))]
        return found or list(islice(self._verified, most))


__all__ = [
    "AuditEvent",
    "ChainProblem",
    "Head",
    "OnProgress",
    "Resumption",
    "VerifiedHead",
    "find_problems",
    "heads",
]
