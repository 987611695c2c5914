"""Events join their subject's chain in the fact's transaction; chain heads are locked last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Row, bindparam, select, text

from agent.database.transaction import Connection, Transaction, fetch
from agent.domain.audit import AuditEvent, AuditKind, Head, event_hash, genesis
from agent.store import clock
from agent.store.tables import audit_event
from signoff.values import Person

SYSTEM = "signoff"

PAGE = 2000
"""Events in memory at a time."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """``detail``: ids and digests, never arguments."""

    kind: AuditKind
    actor: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Read under its lock; ``at`` is database time."""

    subject: str
    seq: int
    hash: bytes
    at: datetime


def actor(person: Person | None) -> str:
    return f"slack:{person}" if person else SYSTEM


def new_head(subject: str, at: datetime) -> ChainHead:
    return ChainHead(subject, 0, genesis(subject), at)


LOCK_HEADS = text(
    "SELECT subject, seq, hash, clock_timestamp() AS at FROM audit_head"
    " WHERE subject = ANY(:subjects) ORDER BY subject FOR NO KEY UPDATE"
)


TAKE_HEADS = text("""
SELECT subject, seq, hash FROM audit_head WHERE subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[]))))
ORDER BY subject FOR NO KEY UPDATE
""")
TRY_HEADS = text("""
SELECT subject, seq, hash FROM audit_head WHERE subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[]))))
ORDER BY subject FOR NO KEY UPDATE SKIP LOCKED
""")


def ids_and_heads(taken: Iterable[Iterable[Row[Any]]]) -> tuple[set[UUID], dict[str, Row[Any]]]:
    """Row ids, and chain heads by subject, from locking statements."""
    rows = [row for each in taken for row in each]
    heads = [row for row in rows if getattr(row, "subject", None) is not None]
    return {found for row in rows if (found := getattr(row, "id", None))}, {row.subject: row for row in heads}


def chain_head(row: Row[Any], at: datetime) -> ChainHead:
    """``at``: the time of this transaction's events."""
    return ChainHead(row.subject, row.seq, bytes(row.hash), at)


async def lock_heads(connection: Connection, subjects: Sequence[str]) -> dict[str, ChainHead]:
    """A subject without events has its genesis."""
    return await heads_of(connection, subjects, await fetch(connection, LOCK_HEADS, subjects=list(subjects)))


async def heads_of(
    connection: Connection, subjects: Sequence[str], rows: Sequence[Row[Any]]
) -> dict[str, ChainHead]:
    """``rows``: of `LOCK_HEADS`."""
    heads = {row.subject: ChainHead(row.subject, row.seq, row.hash, row.at) for row in rows}
    missing = [subject for subject in subjects if subject not in heads]
    if missing:
        at = rows[0].at if rows else await clock.now(connection)
        heads |= {subject: new_head(subject, at) for subject in missing}
    return heads


async def lock_head(connection: Connection, subject: str) -> ChainHead:
    return (await lock_heads(connection, [subject]))[subject]


async def record(
    tx: Transaction, subject: str, kind: AuditKind, actor: str, detail: Mapping[str, Any]
) -> None:
    append(tx, await lock_head(tx, subject), AuditEntry(kind, actor, detail))


async def create_head(connection: Connection, subject: str) -> None:
    """Without another guarding row, lock the chain before its first event."""
    await connection.execute(_FOUND, {"subject": subject, "hash": genesis(subject)})


def append(tx: Transaction, head: ChainHead, *entries: AuditEntry) -> ChainHead:
    """Returns the new head, for more entries in this transaction."""
    return append_all(tx, [(head, entry) for entry in entries])[head.subject] if entries else head


def append_all(tx: Transaction, pairs: Sequence[tuple[ChainHead, AuditEntry]]) -> dict[str, ChainHead]:
    """Append each entry after its subject's head, in one statement."""
    heads: dict[str, ChainHead] = {}
    rows: list[dict[str, Any]] = []
    for first, entry in pairs:
        head = heads.get(first.subject, first)
        seq, detail = head.seq + 1, dict(entry.detail)
        kind = entry.kind.value
        digest = event_hash(head.hash, head.subject, seq, head.at, entry.actor, kind, detail)
        event = {"subject": head.subject, "seq": seq, "at": head.at, "actor": entry.actor, "event": kind}
        rows.append(event | {"detail": detail, "previous": head.hash, "hash": digest})
        heads[head.subject] = ChainHead(head.subject, seq, digest, head.at)
    tx.add_rows(_APPEND, rows)
    return heads


async def heads(connection: Connection) -> dict[str, Head]:
    rows = (await connection.execute(_HEADS)).all()
    return {row.subject: Head(row.subject, row.seq, bytes(row.hash)) for row in rows}


async def next_subject(connection: Connection, after: str) -> str | None:
    found: str | None = (await connection.execute(_NEXT_SUBJECT, {"after": after})).scalar_one_or_none()
    return found


async def events(connection: Connection, subject: str) -> list[AuditEvent]:
    """The whole chain, of a request: chains of keys can be too long for this."""
    return [AuditEvent(*row) for row in await fetch(connection, _EVENTS, subject=subject)]


async def pages(connection: Connection, subject: str, page: int = PAGE) -> AsyncIterator[list[AuditEvent]]:
    """The chain in stored order, whatever its events' numbers; no page is empty."""
    after = _BELOW_ALL
    while rows := await fetch(connection, _PAGE, subject=subject, after=after, page=page):
        yield [AuditEvent(*row) for row in rows]
        if len(rows) < page:  # most chains are short: one statement each
            return
        after = rows[-1].seq


_FOUND = text(
    "INSERT INTO audit_head (subject, seq, hash) VALUES (:subject, 0, :hash) ON CONFLICT DO NOTHING"
)
# Creates a missing chain; of two at once, the second fails on the event's key.
_APPEND = text("""
WITH e AS (
    SELECT * FROM json_to_recordset(:rows) AS t (
        subject text, seq int, at timestamptz, actor text, event text, detail jsonb, previous bytea, hash bytea)
), recorded AS (
    INSERT INTO audit_event (subject, seq, at, actor, event, detail, previous, hash) SELECT * FROM e
)
INSERT INTO audit_head (subject, seq, hash)
SELECT DISTINCT ON (subject) subject, seq, hash FROM e ORDER BY subject, seq DESC
ON CONFLICT (subject) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
""")
_HEADS = text("SELECT subject, seq, hash FROM audit_head")
_NEXT_SUBJECT = text("SELECT min(subject) FROM audit_event WHERE subject > :after")
_EVENTS = select(audit_event).where(audit_event.c.subject == bindparam("subject")).order_by(audit_event.c.seq)
# WITH TIES, because the owner of the table can store two events with one number.
_AFTER = bindparam("after", type_=BigInteger)
_PAGE = _EVENTS.where(audit_event.c.seq > _AFTER).fetch(bindparam("page"), with_ties=True)
_BELOW_ALL = -(2**31) - 1
