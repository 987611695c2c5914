"""Runs in lists, by how they stand; every list is one page of an index, newest first.

``after`` is the last id of the page before.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection
from agent.domain.run import PendingQuestion, RunLine
from agent.store.views.descendants import descendant_waits, with_descendants
from agent.store.views.runs import RUN_COLUMNS, run_of

MOST_ASKED = 20
"""Waiting requests that a line names."""


class RunList(StrEnum):
    """The lists. A run whose background call waits for people is in ``active`` and ``waiting``, not in ``approved``.

    One that waits for a run below it, which waits for people, is in ``waiting``, too.
    """

    ACTIVE = "active"
    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    FAILED = "failed"
    CANCELLED = "cancelled"


async def run_lines(
    connection: Connection,
    team_id: str,
    which: RunList,
    *,
    principal: str | None = None,
    limit: int = 20,
    after: UUID | None = None,
) -> list[RunLine]:
    """A page of a list; of runs that this principal started, if one is given."""
    parameters: dict[str, Any] = {"team": team_id, "limit": limit}
    conditions = ""
    if principal is not None:
        conditions, parameters["principal"] = " AND agent_run.principal = :principal", principal
    if after is not None:
        conditions, parameters["after"] = f"{conditions} AND agent_run.id < :after", after
    page = _PAGES[which].replace("{conditions}", conditions)
    query = text(_LINES.replace("{page}", page))
    return [_line(row) for row in await connection.execute(query, parameters)]


async def run_line(connection: Connection, run_id: UUID) -> RunLine | None:
    """One run with what it and those below it wait for, or ``None``."""
    page = "SELECT id FROM agent_run WHERE id = :id"
    row = (await connection.execute(text(_LINES.replace("{page}", page)), {"id": run_id})).one_or_none()
    return _line(row) if row is not None else None


async def run_of_session(connection: Connection, principal: str, session_id: str, agent: str) -> UUID | None:
    """The latest run of this agent that the principal started for that conversation of its."""
    parameters = {"principal": principal, "session": session_id, "agent": agent}
    found: UUID | None = (await connection.execute(_OF_SESSION, parameters)).scalar_one_or_none()
    return found


async def run_started_with(connection: Connection, start_key: str) -> UUID | None:
    """The run of that start key."""
    found: UUID | None = (await connection.execute(_OF_KEY, {"key": start_key})).scalar_one_or_none()
    return found


async def is_busy(connection: Connection, run_id: UUID) -> bool:
    """Whether something happens in the run, or in one below that it waits for, without anybody's word.

    That is: a turn is due, or a call is judged or runs.
    """
    found: bool = (await connection.execute(_BUSY, {"id": run_id})).scalar_one()
    return found


def _line(row: Row[Any]) -> RunLine:
    asked = tuple(
        PendingQuestion(
            request_id=UUID(each["id"]),
            agent=each["agent"],
            above=tuple(each["above"] or ()),
            revision=each["revision"],
            description=each["description"],
            approvals=each["approvals"],
            approvals_required=each["required"],
            expires_at=datetime.fromisoformat(each["expires"]),
        )
        for each in row.asked
    )
    return RunLine(run_of(row), asked)


_WAITING = f"""
(SELECT DISTINCT r.run_id AS id FROM approval_request AS r JOIN agent_run ON agent_run.id = r.run_id
 WHERE r.team_id = :team AND r.status = 'waiting' AND r.run_id IS NOT NULL{{conditions}}
 ORDER BY r.run_id DESC LIMIT :limit)
UNION
(SELECT agent_run.id FROM (SELECT DISTINCT run_id FROM tool_call WHERE state = 'delegated') AS d
 JOIN agent_run ON agent_run.id = d.run_id
 WHERE agent_run.team_id = :team AND status IN ('working', 'pending_approval', 'completed'){{conditions}}
   AND {descendant_waits("agent_run")}
 ORDER BY agent_run.id DESC LIMIT :limit)
ORDER BY id DESC LIMIT :limit
"""  # noqa: S608 - constants
_ACTIVE = f"""
(SELECT id FROM agent_run
 WHERE team_id = :team AND status IN ('working', 'pending_approval'){{conditions}} ORDER BY id DESC LIMIT :limit)
UNION ({_WAITING})
ORDER BY id DESC LIMIT :limit
"""  # noqa: S608 - constants
_OVER = """
SELECT id FROM agent_run WHERE team_id = :team AND status = '{status}'{conditions}
ORDER BY id DESC LIMIT :limit
"""
_IN_PEACE = f"""{{conditions}}
  AND NOT EXISTS (SELECT 1 FROM approval_request AS r WHERE r.run_id = agent_run.id AND r.status = 'waiting')
  AND NOT {descendant_waits("agent_run")}"""  # noqa: S608 - constants
_PAGES = {
    RunList.ACTIVE: _ACTIVE,
    RunList.WAITING: _WAITING,
    RunList.APPROVED: _OVER.replace("{status}", "completed").replace("{conditions}", _IN_PEACE),
    RunList.DENIED: _OVER.replace("{status}", "denied"),
    RunList.FAILED: _OVER.replace("{status}", "failed"),
    RunList.CANCELLED: _OVER.replace("{status}", "cancelled"),
}
_LINES = f"""
WITH page AS MATERIALIZED ({{page}})
SELECT {RUN_COLUMNS}, w.asked FROM page JOIN agent_run USING (id) CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(json_build_object(
        'id', q.request_id, 'agent', q.agent, 'above', q.above, 'revision', q.revision,
        'description', q.description, 'approvals', q.given, 'required', q.approvals_required,
        'expires', q.expires_at) ORDER BY q.request_id), '[]'::json) AS asked
    FROM (SELECT r.id AS request_id, r.agent, a.ancestor_agents AS above, r.revision, v.description,
                 r.approvals_required, r.expires_at,
                 (SELECT count(*) FROM vote AS b
                  WHERE b.request_id = r.id AND b.revision = r.revision AND b.superseded_by IS NULL
                    AND b.verdict = 'approve') AS given
          FROM ({with_descendants("agent_run")}) AS f
          JOIN approval_request AS r ON r.run_id = f.id AND r.status = 'waiting'
          JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
          JOIN agent_run AS a ON a.id = f.id ORDER BY r.id LIMIT {MOST_ASKED}) AS q
) AS w ORDER BY id DESC
"""  # noqa: S608 - constants
_OF_SESSION = text("""
SELECT id FROM agent_run WHERE principal = :principal AND session_id = :session AND agent = :agent
ORDER BY id DESC LIMIT 1
""")
_OF_KEY = text("SELECT id FROM agent_run WHERE start_key = :key")
_BUSY = text(f"""
SELECT bool_or((f.status IN ('working', 'pending_approval') AND f.inputs > f.heard) OR EXISTS (
    SELECT 1 FROM tool_call AS c WHERE c.run_id = f.id AND c.state IN ('new', 'ready', 'refused', 'claimed')))
FROM agent_run CROSS JOIN LATERAL ({with_descendants("agent_run")}) AS i JOIN agent_run AS f ON f.id = i.id
WHERE agent_run.id = :id
""")  # noqa: S608 - constants
