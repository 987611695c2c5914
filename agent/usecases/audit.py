"""The audit log is verified against its chains, saved heads, and the rows of consent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from agent.database.errors import DatabaseUnavailable, in_one_line
from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain.audit import (
    AuditEvent,
    ChainProblem,
    Head,
    against_kept,
    beginning,
    cut_since,
    verify_chain,
)
from agent.store import audit, authority_differences, request_differences

_COMPARISONS = {**request_differences.COMPARISONS, **authority_differences.COMPARISONS}


async def heads(db: Database) -> list[Head]:
    """Heads to be saved elsewhere, sorted."""
    found = await db.read(audit.heads)
    return [found[subject] for subject in sorted(found)]


async def find_problems(
    db: Database, kept: Iterable[Head] = (), *, page: int = audit.PAGE
) -> tuple[int, list[ChainProblem]]:
    """All chains, their rows and the saved heads (``kept``), in one snapshot. ``page``: events in memory at a time.

    Whoever has the service's login can append any event. So each part is read by itself, and one that cannot be read is
    a problem, not the end.
    """
    found: list[ChainProblem] = []
    events, earlier = 0, {head.subject: head for head in kept}
    present: dict[str, Head] = {}
    walked = False
    try:
        async with db.snapshot() as connection:
            await audit.set_savepoint(connection)
            async with _part(connection, "heads", found):
                present = await audit.heads(connection)
            subject: str | None = None
            async with _part(connection, "chains", found):
                while (subject := await audit.next_subject(connection, subject)) is not None:
                    head, saved = present.pop(subject, None), earlier.pop(subject, None)
                    async with _part(connection, subject, found):
                        pages = audit.pages(connection, subject, page)
                        events += await _verify(pages, subject, head, saved, found)
                walked = True
            for name, compare in _COMPARISONS.items():
                async with _part(connection, name, found):
                    found += await compare(connection)
    except DatabaseUnavailable as lost:
        if not found:
            raise
        found.append(ChainProblem("database", 0, f"the rest is not verified: {lost}"))
    if walked:
        found += [
            ChainProblem(head.subject, head.seq, "its events are gone")
            for head in present.values()
            if head.seq
        ]
        found += [
            problem for head in earlier.values() for problem in cut_since(head, beginning(head.subject))
        ]
    return events, found


@asynccontextmanager
async def _part(connection: Connection, subject: str, found: list[ChainProblem]) -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        await audit.back_to_savepoint(connection)  # raises if the connection is lost
        found.append(ChainProblem(subject, 0, f"cannot be read: {in_one_line(error)}"))


async def _verify(
    pages: AsyncIterator[list[AuditEvent]],
    subject: str,
    head: Head | None,
    kept: Head | None,
    found: list[ChainProblem],
) -> int:
    """One chain; returns its number of events."""
    events, end = 0, beginning(subject)
    async for page in pages:
        found += verify_chain(page, after=end) + against_kept(page, kept)
        events, end = events + len(page), Head(subject, page[-1].seq, page[-1].hash)
    found += verify_chain((), head, end) if head else [ChainProblem(subject, end.seq, "its head is gone")]
    found += cut_since(kept, end)
    return events


__all__ = ["AuditEvent", "ChainProblem", "Head", "find_problems", "heads"]
