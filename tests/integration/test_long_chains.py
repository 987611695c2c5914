"""Chains of the audit log that are too long for memory, such as that of a busy program's key."""

from __future__ import annotations

import tracemalloc

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.audit import AuditKind, Head
from agent.store import audit as chains
from agent.usecases import audit

SUBJECT = "key:busy"


async def record(db: Database, events: int) -> None:
    async with db.transaction() as tx:
        head = await chains.lock_head(tx, SUBJECT)
        entry = chains.AuditEntry(AuditKind.REVIEW_NOT_REQUIRED, "api:busy", {"digest": "d" * 64})
        chains.append(tx, head, *[entry] * events)


async def problems(db: Database, *kept: Head) -> list[str]:
    _, found = await audit.find_problems(db, kept, page=2)
    return [str(each) for each in found]


@pytest.fixture
def tamperer(owner: psycopg.Connection) -> psycopg.Connection:
    """Owns the tables and has switched off what protects the log."""
    owner.execute("ALTER TABLE audit_event DISABLE TRIGGER ALL")
    return owner


async def test_a_long_chain_is_verified_in_little_memory(database: Database) -> None:
    """Ten times as many events take no more memory to verify."""
    events, peaks = 0, []
    for more in (500, 4500):
        await record(database, more)
        await audit.find_problems(database, page=100)  # what is cached for good
        tracemalloc.start()
        try:
            events, found = await audit.find_problems(database, page=100)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert found == []
    assert events == 5000
    assert peaks[1] < 2 * peaks[0]


@pytest.mark.parametrize("seq", range(1, 6))
async def test_an_edit_is_found_wherever_pages_end(
    database: Database, tamperer: psycopg.Connection, seq: int
) -> None:
    """In a chain of several pages, a changed event is one problem, and so is a deleted one, at the next."""
    await record(database, 5)
    assert await problems(database) == []
    tamperer.execute("UPDATE audit_event SET actor = 'api:other' WHERE seq = %s", [seq])
    assert await problems(database) == [f"{SUBJECT} #{seq}: does not match its hash"]
    tamperer.execute("DELETE FROM audit_event WHERE seq = %s", [seq])
    gap = f"{SUBJECT} #{seq + 1}: is stored where #{seq} is expected"
    cut = f"{SUBJECT} #4: the chain is cut here; its head is #5"
    assert await problems(database) == [gap if seq < 5 else cut]


async def test_saved_heads_are_compared_on_every_page(database: Database) -> None:
    """Each head that a chain of several pages ever had is found in it; another one is a problem, as is a later one."""
    kept = []
    for _ in range(5):
        await record(database, 1)
        kept += [head async for head in audit.heads(database)]
    for head in kept:
        assert await problems(database, head) == []
        other = Head(SUBJECT, head.seq, b"?" * 32)
        assert await problems(database, other) == [
            f"{SUBJECT} #{head.seq}: is not the event of the saved head"
        ]
    later = Head(SUBJECT, 6, b"?" * 32)
    assert await problems(database, later) == [f"{SUBJECT} #5: is the last event left; the saved head is #6"]


async def test_a_doubled_event_is_found_at_the_end_of_a_page(
    database: Database, tamperer: psycopg.Connection
) -> None:
    """Two events with one number are a problem, also if a page ends between them."""
    await record(database, 3)
    tamperer.execute("ALTER TABLE audit_event DROP CONSTRAINT pk_audit_event")
    tamperer.execute("INSERT INTO audit_event SELECT * FROM audit_event WHERE seq = 2")
    assert await problems(database) == [f"{SUBJECT} #2: is stored where #3 is expected"]
