"""Requests that expired before their card could be posted, and of which no digest told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch
from agent.store.outbox import Destination
from agent.store.rows import row_as


@dataclass(frozen=True, slots=True)
class UnseenRequest:
    """``delivery_id``: of a post of its card that Slack may have accepted, at ``since`` (epoch seconds) or later.

    ``since`` is ``None`` where the post was given up, which may be long ago.
    """

    request_id: UUID
    delivery_id: UUID | None
    since: float | None


async def unseen(connection: Connection, destination: Destination) -> list[UnseenRequest]:
    """Oldest first; a request with several such posts repeatedly."""
    key = {"team": destination.team_id, "channel": destination.channel_id}
    return [row_as(UnseenRequest, row) for row in await fetch(connection, _UNSEEN, **key)]


def mark_told(tx: Transaction, request_ids: Sequence[UUID]) -> None:
    """No card and no thread follow."""
    tx.add(_TOLD, ids=list(request_ids))
    tx.add(_SKIP, ids=list(request_ids))


_UNSEEN = text("""
SELECT p.request_id, d.id AS delivery_id,
       CASE d.state WHEN 'pending' THEN CAST(extract(epoch FROM coalesce(d.sent_at, d.created_at)) AS float) END
           AS since
FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id AND r.status = 'expired'
LEFT JOIN delivery AS d ON d.request_id = p.request_id AND d.kind = 'card' AND d.ambiguous
                       AND (d.state IN ('pending', 'dead')) IS NOT FALSE
WHERE p.team_id = :team AND p.channel_id = :channel AND p.surface = 'channel' AND p.ts IS NULL AND p.told_at IS NULL
  AND p.closed = '{}'
ORDER BY p.request_id
""")
_TOLD = text("""
UPDATE card_place SET told_at = clock_timestamp()
WHERE request_id = ANY(:ids) AND surface = 'channel' AND ts IS NULL AND told_at IS NULL
""")
_SKIP = text("""
UPDATE delivery SET state = 'skipped'
WHERE request_id = ANY(:ids) AND kind IN ('card', 'thread_line') AND (state IN ('pending', 'dead')) IS NOT FALSE
""")
