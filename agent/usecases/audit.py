from __future__ import annotations

from collections.abc import Iterable

from agent.database.pools import Database
from agent.domain.audit import AuditEvent, ChainProblem, Head, against_kept, verify_chain
from agent.store import audit, audit_differences


async def heads(db: Database) -> list[Head]:
    """Heads to be saved elsewhere, sorted."""
    found = await db.read(audit.heads)
    return [found[subject] for subject in sorted(found)]


async def find_problems(db: Database, kept: Iterable[Head] = ()) -> tuple[int, list[ChainProblem]]:
    """All chains, their rows and the saved heads (``kept``), in one snapshot."""
    found: list[ChainProblem] = []
    events, earlier = 0, {head.subject: head for head in kept}
    async with db.snapshot() as connection:
        present = await audit.heads(connection)
        subject = ""
        while subject := await audit.next_subject(connection, subject) or "":
            chained = await audit.events(connection, subject)
            events += len(chained)
            head = present.pop(subject, None)
            found += verify_chain(chained, head)
            if head is None:
                found.append(ChainProblem(subject, chained[-1].seq, "its head is gone"))
            found += against_kept(chained, earlier.pop(subject, None))
        found += await audit_differences.find(connection)
    found += [
        ChainProblem(head.subject, head.seq, "its events are gone") for head in present.values() if head.seq
    ]
    return events, found + [problem for head in earlier.values() for problem in against_kept((), head)]


__all__ = ["AuditEvent", "ChainProblem", "Head", "find_problems", "heads"]
