"""Events join their subject's chain in the fact's transaction; chain heads are locked last."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch
from agent.domain.audit import AuditEvent, AuditKind, Head, event_hash, genesis
from agent.store import clock
from signoff.canonical import MAX_BYTES
from signoff.values import Person

SYSTEM = "signoff"

PAGE = 500
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
    """Return a person as the audit log names them, `slack:<person>`; without one, Signoff itself."""
    return f"slack:{person}" if person else SYSTEM


def new_head(subject: str, at: datetime) -> ChainHead:
    """Return the head of a chain that has no events yet: number 0 and the subject's genesis hash."""
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
    if not subjects:
        return {}
    # The latest: PostgreSQL reads the clock again for a chain that it had to wait for.
    at = max(row.at for row in rows) if rows else await clock.now(connection)
    heads = {row.subject: ChainHead(row.subject, row.seq, row.hash, at) for row in rows}
    return {subject: heads.get(subject) or new_head(subject, at) for subject in subjects}


async def lock_head(connection: Connection, subject: str) -> ChainHead:
    """Lock one subject's audit chain until COMMIT and return its head, or its genesis if it is new."""
    return (await lock_heads(connection, [subject]))[subject]


async def record(
    tx: Transaction, subject: str, kind: AuditKind, actor: str, detail: Mapping[str, Any]
) -> None:
    """Lock a subject's audit chain and append one event to it."""
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
    """Return the stored head of every chain by subject, with hashes cut to 33 bytes."""
    rows = (await connection.execute(_HEADS)).all()
    return {row.subject: Head(row.subject, row.seq, bytes(row.hash)) for row in rows}


async def next_subject(connection: Connection, after: str | None) -> str | None:
    """Return the first audited subject after this one (None: of all), or None at the end."""
    statement = _FIRST_SUBJECT if after is None else _NEXT_SUBJECT
    [row] = await fetch(connection, statement, after=after)
    found: str | None = row.subject
    return found


async def events(connection: Connection, subject: str) -> list[AuditEvent]:
    """The whole chain, of a request: chains of keys can be too long for this."""
    return [event async for page in pages(connection, subject) for event in page]


async def pages(connection: Connection, subject: str, page: int = PAGE) -> AsyncIterator[list[AuditEvent]]:
    """The chain in stored order, whatever its events' numbers and values; no page is empty."""
    after = _BELOW_ALL
    while rows := await fetch(connection, _PAGE, subject=subject, after=after, page=page, most=_MOST):
        yield [_event(subject, row) for row in rows]
        if len(rows) < page:  # most chains are short: one statement each
            return
        after = rows[-1].seq


def _event(subject: str, row: Row[Any]) -> AuditEvent:
    at, unreadable = _EPOCH, None
    detail: Any = None
    try:
        at = _EPOCH + timedelta(microseconds=row.at)
    except (TypeError, OverflowError):
        unreadable = "its time is not within the years 1 to 9999"
    try:
        detail = json.loads(row.detail)
        unreadable = unreadable if isinstance(detail, dict) else "its detail is not an object"
    except (TypeError, ValueError, RecursionError):
        unreadable = "its detail is too large or too deep, or has a number that is"
    detail = {} if unreadable else detail
    return AuditEvent(
        subject, row.seq, at, row.actor, row.event, detail, bytes(row.previous), bytes(row.hash), unreadable
    )


async def set_savepoint(connection: Connection) -> None:
    """For `back_to_savepoint`, any number of times, in a transaction that only reads."""
    await connection.execute(_SAVEPOINT)


async def back_to_savepoint(connection: Connection) -> None:
    """Return to the savepoint of `set_savepoint`, so that a failed read does not end the transaction."""
    await connection.execute(_BACK)


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
_HEADS = text("SELECT subject, seq, substring(hash FOR 33) AS hash FROM audit_head")
_FIRST_SUBJECT = text("SELECT min(subject) AS subject FROM audit_event")
_NEXT_SUBJECT = text("SELECT min(subject) AS subject FROM audit_event WHERE subject > :after")
# The service's own login may append any event: a value that PostgreSQL cannot write out (a few bytes can be gigabytes
# as text), or Python cannot hold, must not end the reading of the others.
# WITH TIES, because the owner of the table can store two events with one number.
_PAGE = text("""
SELECT seq, CASE WHEN isfinite(at) THEN CAST(extract(epoch FROM at) * 1000000 AS bigint) END AS at,
       left(actor, :most) AS actor, left(event, :most) AS event,
       CASE WHEN pg_column_size(detail #> '{}') > :most OR jsonb_path_exists(detail, '$.**{65}')
                OR jsonb_path_exists(detail, '$.**{0 to 64} ? (@ > 1e16 || @ < -1e16)') THEN NULL
            WHEN octet_length(CAST(detail AS text)) <= :most THEN CAST(detail AS text) END AS detail,
       substring(previous FOR 33) AS previous, hash
FROM audit_event WHERE subject = :subject AND seq > :after
ORDER BY seq FETCH FIRST (CAST(:page AS bigint)) ROWS WITH TIES
""")
_BELOW_ALL = -(2**31) - 1
_MOST = 2 * MAX_BYTES
"""PostgreSQL adds blanks to JSON."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_SAVEPOINT, _BACK = text("SAVEPOINT part"), text("ROLLBACK TO SAVEPOINT part")
