"""The record as a whole: what was enforced when, and whether the chains still hold."""

from __future__ import annotations

from agent.domain.audit import AuditEvent, AuditKind, Head, Problem, verify
from agent.store import chain, record
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.database import Database

POLICY = "policy"


async def policy_loaded(db: Database, digest: bytes, actor: str) -> None:
    """Which policy a process enforces from now on; recorded when it differs from the last one recorded."""
    async with db.transaction() as connection:
        await chain.found(connection, POLICY)
        head = (await chain.lock_heads(connection, [POLICY]))[POLICY]
        if await record.last_detail(connection, POLICY, "digest") == digest.hex():
            return
        batch = Batch()
        chain.append(batch, head, Entry(AuditKind.POLICY_LOADED, actor, {"digest": digest.hex()}))
        await batch.send(connection)


async def problems(db: Database) -> tuple[int, list[Problem]]:
    """Verify every chain. Returns how many events hold, and where a chain does not.

    Heads and events come from one snapshot: an event that commits between two reads would look like tampering.
    """
    found: list[Problem] = []
    events = 0
    async with db.snapshot() as connection:
        heads = await record.heads(connection)
        subject = ""
        while subject := await record.next_subject(connection, subject) or "":
            chained = await record.events(connection, subject)
            events += len(chained)
            found += verify(chained, heads.pop(subject, None))
    found += [Problem(head.subject, head.seq, "its events are gone") for head in heads.values() if head.seq]
    return events, found


__all__ = ["AuditEvent", "Head", "Problem", "policy_loaded", "problems"]
