"""Triggers mark requests whose search words are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from agent.database.json_rows import json_rows
from agent.database.transaction import Connection, Transaction, fetch


@dataclass(frozen=True, slots=True)
class SearchWords:
    """Masked words, as of ``recorded`` audit events."""

    request_id: UUID
    recorded: int
    words: Sequence[str]


async def take_due(connection: Connection, limit: int) -> list[UUID]:
    """COMMIT clears the mark; requests that others hold are skipped."""
    rows = await fetch(connection, _TAKE, limit=limit)
    return sorted({row.request_id for row in rows})


def store(tx: Transaction, found: Sequence[SearchWords]) -> None:
    """Newer words stay."""
    rows = [
        {"request_id": each.request_id, "recorded": each.recorded, "words": list(each.words)}
        for each in found
    ]
    tx.add(_STORE, rows=json_rows(rows))


_TAKE = text("""
DELETE FROM search_due WHERE id IN (SELECT id FROM search_due ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
RETURNING request_id
""")
_STORE = text("""
INSERT INTO request_search AS known (request_id, recorded, words)
SELECT request_id, recorded, array_to_tsvector(words)
FROM json_to_recordset(CAST(:rows AS json)) AS given (request_id uuid, recorded bigint, words text[])
ORDER BY request_id
ON CONFLICT (request_id) DO UPDATE SET recorded = excluded.recorded, words = excluded.words
WHERE known.recorded <= excluded.recorded
""")
