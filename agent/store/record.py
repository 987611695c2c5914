"""Reading the record."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.domain.audit import AuditEvent, Head


async def last_detail(connection: AsyncConnection, subject: str, key: str) -> str | None:
    """One value of a subject's last event."""
    found: str | None = (
        await connection.execute(_LAST_DETAIL, {"subject": subject, "key": key})
    ).scalar_one_or_none()
    return found


async def heads(connection: AsyncConnection) -> dict[str, Head]:
    """Where every chain ends, by its subject."""
    rows = (await connection.execute(_HEADS)).all()
    return {row.subject: Head(row.subject, row.seq, bytes(row.hash)) for row in rows}


async def next_subject(connection: AsyncConnection, after: str) -> str | None:
    """The subject that follows in alphabetical order."""
    found: str | None = (await connection.execute(_NEXT_SUBJECT, {"after": after})).scalar_one_or_none()
    return found


async def events(connection: AsyncConnection, subject: str) -> list[AuditEvent]:
    """A subject's whole chain."""
    rows = (await connection.execute(_EVENTS, {"subject": subject})).all()
    return [
        AuditEvent(r.subject, r.seq, r.at, r.actor, r.event, r.detail, bytes(r.previous), bytes(r.hash))
        for r in rows
    ]


_LAST_DETAIL = text(
    "SELECT detail ->> :key FROM audit_event WHERE subject = :subject ORDER BY seq DESC LIMIT 1"
)
_HEADS = text("SELECT subject, seq, hash FROM audit_head")
_NEXT_SUBJECT = text("SELECT min(subject) FROM audit_event WHERE subject > :after")
_EVENTS = text("""
SELECT subject, seq, at, actor, event, detail, previous, hash FROM audit_event WHERE subject = :subject ORDER BY seq
""")
