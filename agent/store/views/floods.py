"""Requests of one sender that wait without a card."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection
from signoff.values import Risk


@dataclass(frozen=True, slots=True)
class Flood:
    """A sum of one sender's waiting requests that have no card, as its digest shows it."""

    waiting: int = 0
    highest: Risk = Risk.LOW
    first_deadline: datetime | None = None
    tools: Counter[str] = field(default_factory=Counter)
    notify: tuple[str, ...] = ()


async def flood(connection: Connection, team_id: str, channel_id: str, sender: str) -> Flood:
    """``sender``: an agent, or `key:NAME`."""
    key = {"team": team_id, "channel": channel_id, "sender": sender}
    rows = (await connection.execute(_FLOOD, key)).all()
    if not rows:
        return Flood()
    tools: Counter[str] = Counter()
    for row in rows:
        tools[row.tool] += row.waiting
    notify = dict.fromkeys(str(each) for row in rows for each in row.notify or ())
    deadline = min(row.first_deadline for row in rows)
    highest = max((Risk(row.risk) for row in rows), key=list(Risk).index)
    return Flood(tools.total(), highest, deadline, tools, tuple(notify))


_FLOOD = text("""
SELECT v.tool, r.risk::text AS risk, rule.content -> 'notify' AS notify, count(*) AS waiting,
       min(r.expires_at) AS first_deadline
FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
JOIN rule ON rule.digest = r.rule_digest
WHERE p.folded AND p.digest IS NULL AND p.team_id = :team AND p.channel_id = :channel AND r.status = 'waiting'
  AND CASE r.source WHEN 'api' THEN r.principal ELSE r.agent END = :sender
GROUP BY v.tool, r.risk, rule.content -> 'notify'
""")
