"""Events join their subject's chain in the fact's transaction; chain heads are locked last."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch, query
from agent.domain.audit import AuditEvent, AuditKind, Head, StoredEvent, event_hash, genesis
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


@dataclass(frozen=True, slots=True)
class Survey:
    """``chains``: the short ones that end at their head. ``changed``: subjects that are not what was verified."""

    chains: Mapping[str, list[StoredEvent]]
    changed: set[str]
    following: list[str]


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
        rows.append(event | {"detail": detail, "hash": digest})
        heads[head.subject] = ChainHead(head.subject, seq, digest, head.at)
    tx.add_rows(_APPEND, rows)
    return heads


async def heads(connection: Connection, page: int = PAGE) -> AsyncIterator[list[Head]]:
    """Every stored head, by subject, with hashes cut to 33 bytes; no page is empty."""
    found = [_head(row) for row in await fetch(connection, _HEADS, since="", limit=page)]
    while found:
        yield found
        last = found[-1].subject
        rows = await fetch(connection, _HEADS, since=last, limit=page + 1)
        found = [_head(row) for row in rows if row.subject != last]


async def head(connection: Connection, subject: str) -> Head | None:
    """Return the stored head of one chain, with its hash cut to 33 bytes."""
    rows = await fetch(connection, _HEAD, subject=subject)
    return _head(rows[0]) if rows else None


async def count_recorded(connection: Connection) -> int:
    """How many events there are, say the heads."""
    [row] = await fetch(connection, _RECORDED)
    return int(row.events)


async def heads_without_events(connection: Connection) -> list[Head]:
    """Heads whose chain is gone."""
    return [_head(row) for row in await fetch(connection, _WITHOUT_EVENTS)]


async def subjects(connection: Connection, after: str | None, limit: int) -> list[str]:
    """Return the next audited subjects after this one; None: the first."""
    if after is None:
        [row] = await fetch(connection, _FIRST_SUBJECT)
        return [] if row.subject is None else [row.subject]
    return [row.subject for row in await fetch(connection, _SUBJECTS, after=after, limit=limit)]


async def survey(
    connection: Connection, subjects: Sequence[str], verified: Sequence[Head], after: str, limit: int
) -> Survey:
    """In one round trip: short chains as they are stored, which verified heads have changed, and the next subjects."""
    given = {"subjects": list(subjects), "after": after, "limit": limit, "most": _SHORT_TEXT}
    parts = (_SHORT_CHAINS, _CHANGED, _SUBJECTS) if verified else (_SHORT_CHAINS, _SUBJECTS)
    rows, *changed, following = await query(connection, *parts, **given, **_arrays(verified))
    chains: dict[str, list[StoredEvent]] = {}
    ends: dict[str, bool] = {}
    for row in rows:
        subject = subjects[row[0] - 1]
        chains.setdefault(subject, []).append(row[2:])
        ends[subject] = bool(row[1])
    at_head = {subject: chain for subject, chain in chains.items() if ends[subject] and len(chain) <= _SHORT}
    return Survey(
        at_head, {row.subject for part in changed for row in part}, [row.subject for row in following]
    )


async def continues(connection: Connection, verified: Head) -> bool:
    """Whether the chain still has this event, and as many as its number until then."""
    return bool((await fetch(connection, _CONTINUES, **vars(verified)))[0].continues)


async def differing_heads(connection: Connection, kept: Sequence[Head]) -> list[tuple[Head, bool, int]]:
    """Of saved heads, those that are not the event of their number: whether there is another, else the last number."""
    rows = await fetch(connection, _DIFFERING, **_arrays(kept))
    return [(kept[row.n - 1], row.is_another, row.last) for row in rows]


def _arrays(heads: Sequence[Head]) -> dict[str, list[Any]]:
    return {
        "known": [each.subject for each in heads],
        "seqs": [each.seq for each in heads],
        "hashes": [each.hash for each in heads],
    }


def _head(row: Row[Any]) -> Head:
    return Head(row.subject, row.seq, bytes(row.hash))


async def events(connection: Connection, subject: str) -> list[AuditEvent]:
    """The whole chain, of a request: chains of keys can be too long for this."""
    return [event async for page in pages(connection, subject) for event in page]


async def pages(
    connection: Connection, subject: str, page: int = PAGE, after: int | None = None
) -> AsyncIterator[list[AuditEvent]]:
    """The chain in stored order, whatever its events' numbers and values; no page is empty."""
    after = _BELOW_ALL if after is None else after
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
    return AuditEvent(subject, row.seq, at, row.actor, row.event, detail, bytes(row.hash), unreadable)


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
        subject text, seq int, at timestamptz, actor text, event text, detail jsonb, hash bytea)
), recorded AS (
    INSERT INTO audit_event (subject, seq, at, actor, event, detail, hash) SELECT * FROM e
)
INSERT INTO audit_head (subject, seq, hash)
SELECT DISTINCT ON (subject) subject, seq, hash FROM e ORDER BY subject, seq DESC
ON CONFLICT (subject) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
""")
_HEADS = text("""
SELECT subject, seq, substring(hash FOR 33) AS hash FROM audit_head WHERE subject >= :since
ORDER BY subject LIMIT (CAST(:limit AS bigint))
""")
_HEAD = text("SELECT subject, seq, substring(hash FOR 33) AS hash FROM audit_head WHERE subject = :subject")
_RECORDED = text("SELECT coalesce(sum(seq), 0) AS events FROM audit_head")
_WITHOUT_EVENTS = text("""
SELECT subject, seq, substring(hash FOR 33) AS hash FROM audit_head AS h
WHERE seq <> 0 AND NOT EXISTS (SELECT FROM audit_event AS e WHERE e.subject = h.subject) ORDER BY subject
""")
_FIRST_SUBJECT = text("SELECT min(subject) AS subject FROM audit_event")
# From one subject to the next: a chain can be long.
_SUBJECTS = text("""
WITH RECURSIVE each (subject) AS (
    SELECT (SELECT min(subject) FROM audit_event WHERE subject > :after)
    UNION ALL
    SELECT (SELECT min(subject) FROM audit_event WHERE subject > each.subject) FROM each WHERE subject IS NOT NULL
)
SELECT subject FROM each WHERE subject IS NOT NULL LIMIT (CAST(:limit AS bigint))
""")
# One event more than a short chain has. OFFSET 0: the text is made once, and not of large numbers.
_SHORT_CHAINS = text("""
SELECT k.n, (h.seq, h.hash) = (e.seq, e.hash) AS is_head, e.seq,
       CASE WHEN isfinite(e.at) THEN CAST(extract(epoch FROM e.at) * 1000000 AS bigint) END AS at,
       CASE WHEN octet_length(e.actor) <= :most THEN e.actor ELSE '' END AS actor,
       CASE WHEN octet_length(e.event) <= :most THEN e.event ELSE '' END AS event,
       CASE WHEN octet_length(e.detail) <= :most THEN e.detail END AS detail,
       e.hash
FROM unnest(CAST(:subjects AS text[])) WITH ORDINALITY AS k (subject, n)
LEFT JOIN audit_head AS h ON h.subject = k.subject
CROSS JOIN LATERAL (
    SELECT seq, at, actor, event, hash,
           CASE WHEN pg_column_size(detail) <= :most AND NOT jsonb_path_exists(detail, '$.** ? (@ > 1e16 || @ < -1e16)')
                THEN CAST(detail AS text) END AS detail
    FROM audit_event WHERE subject = k.subject ORDER BY seq LIMIT 17 OFFSET 0) AS e
ORDER BY k.n, e.seq
""")
# By their numbers, so that one shows that is missing, doubled or new.
_CHANGED = text("""
SELECT k.subject
FROM unnest(CAST(:known AS text[]), CAST(:seqs AS bigint[]), CAST(:hashes AS bytea[])) AS k (subject, seq, hash)
LEFT JOIN audit_head AS h ON h.subject = k.subject
LEFT JOIN audit_event AS e ON e.subject = k.subject AND e.seq = k.seq
WHERE (h.seq, h.hash, e.hash) IS DISTINCT FROM (k.seq, k.hash, k.hash)
   OR (SELECT (count(*), count(DISTINCT c.seq), min(c.seq), max(c.seq)) <> (k.seq, k.seq, 1, k.seq)
       FROM audit_event AS c WHERE c.subject = k.subject)
""")
_CONTINUES = text("""
SELECT EXISTS (SELECT FROM audit_event WHERE subject = :subject AND seq = :seq AND hash = :hash)
   AND (SELECT (count(*), count(DISTINCT seq), min(seq)) = (CAST(:seq AS bigint), CAST(:seq AS bigint), 1)
        FROM audit_event WHERE subject = :subject AND seq <= :seq) AS continues
""")
_DIFFERING = text("""
SELECT k.n, e.seq IS NOT NULL AS is_another,
       CASE WHEN e.seq IS NULL THEN (SELECT coalesce(max(seq), 0) FROM audit_event AS c WHERE c.subject = k.subject)
            ELSE 0 END AS last
FROM unnest(CAST(:known AS text[]), CAST(:seqs AS bigint[]), CAST(:hashes AS bytea[]))
     WITH ORDINALITY AS k (subject, seq, hash, n)
LEFT JOIN audit_event AS e ON e.subject = k.subject AND e.seq = k.seq
WHERE k.seq > 0 AND e.hash IS DISTINCT FROM k.hash ORDER BY k.n
""")
# The service's own login may append any event: a value that PostgreSQL cannot write out (a few bytes can be gigabytes
# as text), or Python cannot hold, must not end the reading of the others.
# WITH TIES, because the owner of the table can store two events with one number.
_PAGE = text("""
SELECT seq, CASE WHEN isfinite(at) THEN CAST(extract(epoch FROM at) * 1000000 AS bigint) END AS at,
       left(actor, :most) AS actor, left(event, :most) AS event,
       CASE WHEN pg_column_size(detail #> '{}') > :most OR jsonb_path_exists(detail, '$.**{65}')
                OR jsonb_path_exists(detail, '$.**{0 to 64} ? (@ > 1e16 || @ < -1e16)') THEN NULL
            WHEN octet_length(CAST(detail AS text)) <= :most THEN CAST(detail AS text) END AS detail,
       hash
FROM audit_event WHERE subject = :subject AND seq > :after
ORDER BY seq FETCH FIRST (CAST(:page AS bigint)) ROWS WITH TIES
""")
_BELOW_ALL = -(2**31) - 1
_MOST = 2 * MAX_BYTES
"""PostgreSQL adds blanks to JSON."""
_SHORT = 16
"""Events of a short chain, as in its statement."""
_SHORT_TEXT = 4096
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_SAVEPOINT, _BACK = text("SAVEPOINT part"), text("ROLLBACK TO SAVEPOINT part")
