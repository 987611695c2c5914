"""The terms of consent of a request, as its row and its audit log have them.

A statement that reads them selects the columns of ``stored``, and as ``terms_recorded`` the latest digest on record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, fetch
from agent.domain.consent_terms import ConsentTerms
from agent.store import exclusions
from agent.store.rows import row_as


def stored(row: Row[Any]) -> ConsentTerms:
    """Return a request's terms of consent as its row has them, to compare with the audit log's."""
    return row_as(ConsentTerms, row, excluded=exclusions.from_json(row.excluded))


def stand(row: Row[Any]) -> bool:
    """Whether the terms are those on record; nobody was asked without a request."""
    return row.request_id is None or stored(row).digest == row.terms_recorded


async def standing(connection: Connection, request_ids: Sequence[UUID]) -> dict[UUID, ConsentTerms]:
    """Of locked requests, those whose terms are on record."""
    rows = await fetch(connection, TERMS, ids=list(request_ids))
    return {row.request_id: stored(row) for row in rows if stand(row)}


TERMS = text("""
SELECT r.id AS request_id, r.approvers, r.excluded, r.approvals_required, r.expires_at, r.requester_team_id,
       r.requester_user_id,
       (SELECT detail ->> 'terms' FROM audit_event
        WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
        ORDER BY seq DESC LIMIT 1) AS terms_recorded
FROM approval_request AS r WHERE r.id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
""")
