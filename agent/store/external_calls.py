from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.request import ExecutionStatus
from agent.store.rows import row_as


@dataclass(frozen=True, slots=True)
class HandedOutCall:
    id: UUID
    run_id: UUID
    agent: str
    tool: str
    request_id: UUID | None
    """``None``: policy lets it run."""
    description: str | None
    """The request's, masked."""
    created_at: datetime
    claim_until: datetime


@dataclass(frozen=True, slots=True)
class ExternalCallAttempt:
    execution_id: UUID
    call_id: UUID
    run_id: UUID
    request_id: UUID | None
    agent: str
    tool: str
    worker: str
    status: ExecutionStatus


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """A program's attempt, while its lease lasts."""

    execution_id: UUID
    attempt: int
    worker: str
    claim_hash: bytes


def hand_out(tx: Transaction, call_id: UUID, seconds: float) -> None:
    tx.add(_HAND_OUT, call=call_id, seconds=seconds)


async def handed_out(
    connection: Connection, tools: Sequence[tuple[str, str]], limit: int
) -> list[HandedOutCall]:
    given = {
        "agents": [agent for agent, _ in tools],
        "tools": [tool for _, tool in tools],
        "limit": limit,
    }
    return [row_as(HandedOutCall, row) for row in await connection.execute(_HANDED_OUT, given)]


async def find_attempt(
    connection: Connection, call_id: UUID, claim_hash: bytes
) -> ExternalCallAttempt | None:
    rows = (await connection.execute(_BY_TOKEN, {"call": call_id, "hash": claim_hash})).all()
    return row_as(ExternalCallAttempt, rows[0], status=ExecutionStatus(rows[0].status)) if rows else None


async def find_open_attempt(connection: Connection, call_id: UUID) -> OpenAttempt | None:
    row = (await connection.execute(_OPEN, {"call": call_id})).one_or_none()
    return row_as(OpenAttempt, row) if row else None


_HAND_OUT = text("""
UPDATE tool_call SET claim_until = clock_timestamp() + make_interval(secs => :seconds)
WHERE id = :call AND state = 'ready'
""")
_HANDED_OUT = text("""
SELECT c.id, c.run_id, c.agent, c.tool, r.id AS request_id, v.description, c.created_at, c.claim_until
FROM unnest(CAST(:agents AS text[]), CAST(:tools AS text[])) AS of (agent, tool)
JOIN tool_call AS c ON c.state = 'ready' AND c.agent = of.agent AND c.tool = of.tool
JOIN agent_run AS a ON a.id = c.run_id
LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
LEFT JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE c.claim_until > (SELECT clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM pause WHERE scope IN ('*', a.agent) OR scope = ANY (a.ancestor_agents))
ORDER BY c.created_at LIMIT :limit
""")
_OPEN = text("""
SELECT id AS execution_id, attempt, worker, claim_hash FROM execution
WHERE call_id = :call AND status = 'claimed' AND claim_hash IS NOT NULL AND lease_until > clock_timestamp()
""")
_BY_TOKEN = text("""
SELECT e.id AS execution_id, e.call_id, c.run_id, e.request_id, c.agent, c.tool, e.worker, e.status::text AS status
FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
WHERE e.call_id = :call AND e.claim_hash = :hash
""")
