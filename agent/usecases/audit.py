"""The record as a whole: what was enforced when, and whether the chains still hold."""

from __future__ import annotations

from agent.database.pools import Database
from agent.domain.audit import AuditEvent, AuditKind, ChainProblem, Head, verify_chain
from agent.store import audit
from agent.store.audit import AuditEntry

POLICY = "policy"


async def record_policy(db: Database, digest: bytes, actor: str) -> None:
    """Which policy a process enforces from now on; recorded when it differs from the last one recorded."""
    async with db.transaction() as tx:
        await audit.create_head(tx, POLICY)
        head = await audit.lock_head(tx, POLICY)
        if await audit.last_detail(tx, POLICY, "digest") == digest.hex():
            return
        audit.append(tx, head, AuditEntry(AuditKind.POLICY_LOADED, actor, {"digest": digest.hex()}))


async def find_problems(db: Database) -> tuple[int, list[ChainProblem]]:
    """Verify every chain. Returns how many events hold, and where a chain does not.

    Heads and events come from one snapshot: an event that commits between two reads would look like tampering.
    """
    found: list[ChainProblem] = []
    events = 0
    async with db.snapshot() as connection:
        heads = await audit.heads(connection)
        subject = ""
        while subject := await audit.next_subject(connection, subject) or "":
            chained = await audit.events(connection, subject)
            events += len(chained)
            found += verify_chain(chained, heads.pop(subject, None))
    found += [
        ChainProblem(head.subject, head.seq, "its events are gone") for head in heads.values() if head.seq
    ]
    return events, found


__all__ = ["AuditEvent", "ChainProblem", "Head", "find_problems", "record_policy"]
