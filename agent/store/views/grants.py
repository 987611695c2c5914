"""Grants that are open, and the decided calls that a grant is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.domain.request import RequestStatus
from agent.store.rows import row_as
from signoff.values import Person

MOST = 200


@dataclass(frozen=True, slots=True)
class LiveGrant:
    """An approved grant that is neither ended nor used up, with how much of it is used."""

    id: UUID
    description: str
    agent: str
    tool: str
    team_id: str
    channel_id: str
    approvers: tuple[str, ...]
    uses: int
    max_uses: int
    used_sum: Decimal
    max_sum: Decimal | None
    until: datetime


async def live_grants(connection: Connection) -> Sequence[LiveGrant]:
    """At most 200 approved grants, earliest end first."""
    return [row_as(LiveGrant, row) for row in await fetch(connection, _LIVE, most=MOST)]


_LIVE = text("""
SELECT r.id, v.description, g.agent, g.tool, r.team_id, r.channel_id, r.approvers, g.uses, g.max_uses, g.used_sum,
       g.max_sum, g.until
FROM approval_grant AS g
JOIN approval_request AS r ON r.id = g.request_id AND r.status = 'approved'
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE g.ended_at IS NULL AND g.until > (SELECT clock_timestamp()) AND g.uses < g.max_uses
ORDER BY g.until, r.id LIMIT :most
""")


LOOKED_AT = 200
MAX_SCANNED = 2000
"""The agent's decided requests, of any tool, to search."""


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """A call as proposed; action and facts are canonical bytes."""

    id: UUID
    status: RequestStatus
    action: bytes
    facts: bytes | None
    requester: Person | None
    channel_id: str
    message_ts: str | None


async def decided_calls(connection: Connection, team_id: str, agent: str, tool: str) -> Sequence[DecidedCall]:
    """Calls, latest first, without erased ones."""
    rows = await fetch(
        connection, _DECIDED, team=team_id, agent=agent, tool=tool, furthest=MAX_SCANNED, most=LOOKED_AT
    )
    return [row_as(DecidedCall, row) for row in rows]


_DECIDED = text("""
SELECT r.id, r.status::text AS status, v.action, v.facts, r.requester_team_id, r.requester_user_id, r.channel_id,
       p.ts AS message_ts
FROM (SELECT * FROM approval_request
      WHERE team_id = :team AND agent = :agent AND decided_at IS NOT NULL AND status IN ('approved', 'rejected')
      ORDER BY decided_at DESC, id DESC LIMIT :furthest) AS r
JOIN request_revision AS v ON v.request_id = r.id AND v.n = 1
LEFT JOIN card_place AS p ON p.request_id = r.id AND p.surface = 'channel'
WHERE v.tool = :tool AND v.erased_at IS NULL
ORDER BY r.decided_at DESC, r.id DESC LIMIT :most
""")
