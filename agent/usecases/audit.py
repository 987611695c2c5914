from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from agent.database.pools import Database
from agent.domain.audit import (
    AuditEvent,
    ChainProblem,
    Head,
    against_kept,
    beginning,
    cut_since,
    verify_chain,
)
from agent.store import audit, audit_differences


async def heads(db: Database) -> list[Head]:
    """Heads to be saved elsewhere, sorted."""
    found = await db.read(audit.heads)
    return [found[subject] for subject in sorted(found)]


async def find_problems(
    db: Database, kept: Iterable[Head] = (), *, page: int = audit.PAGE
) -> tuple[int, list[ChainProblem]]:
    """All chains, their rows and the saved heads (``kept``), in one snapshot. ``page``: events in memory at a time."""
    found: list[ChainProblem] = []
    events, earlier = 0, {head.subject: head for head in kept}
    async with db.snapshot() as connection:
        present = await audit.heads(connection)
        subject = ""
        while subject := await audit.next_subject(connection, subject) or "":
            head, saved = present.pop(subject, None), earlier.pop(subject, None)
            chained, problems = await _verify(audit.pages(connection, subject, page), subject, head, saved)
            events += chained
            found += problems
        found += await audit_differences.find(connection)
    found += [
        ChainProblem(head.subject, head.seq, "its events are gone") for head in present.values() if head.seq
    ]
    return events, found + [
        problem for head in earlier.values() for problem in cut_since(head, beginning(head.subject))
    ]


async def _verify(
    pages: AsyncIterator[list[AuditEvent]], subject: str, head: Head | None, kept: Head | None
) -> tuple[int, list[ChainProblem]]:
    """One chain; also returns its number of events."""
    events, end = 0, beginning(subject)
    found: list[ChainProblem] = []
    async for page in pages:
        found += verify_chain(page, after=end) + against_kept(page, kept)
        events, end = events + len(page), Head(subject, page[-1].seq, page[-1].hash)
    found += verify_chain((), head, end) if head else [ChainProblem(subject, end.seq, "its head is gone")]
    return events, found + cut_since(kept, end)


__all__ = ["AuditEvent", "ChainProblem", "Head", "find_problems", "heads"]
