"""Live grants, and how much of them is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, fetch
from agent.store.rows import row_as

MOST = 200


@dataclass(frozen=True, slots=True)
class LiveGrant:
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
