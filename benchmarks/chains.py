"""The audit log of copied requests, linked into their own chains inside the database.

The hash covers the canonical text of the original's event with the copy's ids, time and previous hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from signoff.canonical import canonical_bytes

PREVIOUS, AT = "@previous@", "@at@"
_ORIGINAL = """
SELECT id::text, run_id::text, call_id::text,
       (SELECT detail ->> 'terms' FROM audit_event WHERE subject = 'request:' || r.id AND event = 'request.opened')
FROM approval_request AS r WHERE id = %s
"""
_EVENTS = "SELECT seq, actor, event, detail FROM audit_event WHERE subject = %s ORDER BY seq"
_RFC3339 = """to_char({at} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_SHA: LiteralString = "CROSS JOIN LATERAL (SELECT sha256(convert_to({text}, 'UTF8')) AS hash) AS {name}"


def chains(
    connection: psycopg.Connection[Any], request_id: str, names: Mapping[str, str]
) -> Iterator[sql.Composed]:
    """Create events and heads for every row of the table ``copies``.

    ``names``: its columns with more that differs, and what the original has there.
    """
    row = connection.execute(_ORIGINAL, [request_id]).fetchone()
    if row is None:
        raise RuntimeError(f"there is no request {request_id}")
    ids = dict(zip(("request", "run", "call", "terms"), row, strict=True)) | dict(names)
    for kind in ("run", "request"):
        subject = f"{kind}:{ids[kind]}"
        events = connection.execute(_EVENTS, [subject]).fetchall()
        yield from _chain(subject, events, ids)


def _chain(subject: str, events: list[Any], ids: dict[str, str]) -> Iterator[sql.Composed]:
    hashes = [_hash(_copied(canonical_bytes({"genesis": subject}).decode(), ids), "h0")]
    rows = []
    for n, (seq, actor, event, detail) in enumerate(events, 1):
        at = sql.SQL("(c.born + interval '1 ms' * {})").format(n)
        previous = sql.Identifier(f"h{n - 1}", "hash")
        content = {"previous": PREVIOUS, "subject": subject, "seq": seq, "at": AT}
        content |= {"actor": actor, "event": event, "detail": detail}
        text = _copied(canonical_bytes(content).decode(), ids)
        text = _replaced(text, AT, sql.SQL(_RFC3339).format(at=at))
        text = _replaced(text, PREVIOUS, sql.SQL("encode({}, 'hex')").format(previous))
        hashes.append(_hash(text, f"h{n}"))
        own = _copied(canonical_bytes(detail).decode(), ids)
        rows.append(
            sql.SQL("({}, {}, {}, {}, {}::jsonb, {})").format(
                seq, at, _copied(actor, ids), event, own, sql.Identifier(f"h{n}", "hash")
            )
        )
    computed = sql.SQL(" ").join(hashes)
    named = _copied(subject, ids)
    yield sql.SQL(
        "INSERT INTO audit_event (subject, seq, at, actor, event, detail, hash)"
        " SELECT {}, e.* FROM copies AS c {} CROSS JOIN LATERAL (VALUES {}) AS e"
    ).format(named, computed, sql.SQL(", ").join(rows))
    yield sql.SQL("INSERT INTO audit_head (subject, seq, hash) SELECT {}, {}, {} FROM copies AS c {}").format(
        named, len(events), sql.Identifier(f"h{len(events)}", "hash"), computed
    )


def _hash(text: sql.Composable, name: str) -> sql.Composed:
    return sql.SQL(_SHA).format(text=text, name=sql.Identifier(name))


def _copied(text: str, ids: dict[str, str]) -> sql.Composable:
    found: sql.Composable = sql.Literal(text)
    for name, original in ids.items():
        if original in text:
            found = _replaced(found, original, sql.SQL("{}::text").format(sql.Identifier("c", name)))
    return found


def _replaced(text: sql.Composable, old: str, new: sql.Composable) -> sql.Composed:
    return sql.SQL("replace({}, {}, {})").format(text, old, new)
