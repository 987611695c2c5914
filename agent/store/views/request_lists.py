"""Requests in lists: what waits, for whom, and what has been decided; every list is one page of an index.

``after`` is the last id of the page before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection
from agent.domain.request import Count, HistoryLine, RequestLine, RequestStatus
from agent.store.views.requests import person as person_of
from signoff.values import Person, Risk

FIRST = UUID(int=0)


async def waiting_requests(
    connection: Connection, *, team_id: str, limit: int = 20, after: UUID | None = None
) -> list[RequestLine]:
    """Waiting requests of a team, oldest first."""
    parameters = {"team": team_id, "limit": limit, "after": after}
    return [_line(row) for row in (await connection.execute(_WAITING, parameters)).all()]


async def count_waiting(connection: Connection, *, team_id: str, at_most: int = 1000) -> int:
    """How many wait, counted up to ``at_most`` so that the answer stays cheap."""
    parameters = {"team": team_id, "limit": at_most}
    found: int = (await connection.execute(_COUNT_WAITING, parameters)).scalar_one()
    return found


async def waiting_for(
    connection: Connection,
    team_id: str,
    user_id: str,
    roles: Sequence[str],
    channels: Sequence[str],
    limit: int = 20,
    after: UUID | None = None,
) -> list[RequestLine]:
    """What this person may decide and has not voted on yet, oldest first.

    ``roles`` are the user groups that the person is in, ``channels`` the review channels; the person's own
    requests are left out where their checkpoint keeps requesters from deciding.
    """
    parameters = {
        "team": team_id,
        "user": user_id,
        "roles": [user_id, *roles],
        "channels": list(channels),
        "limit": limit,
        "after": after or FIRST,
    }
    return [_line(row) for row in (await connection.execute(_WAITING_FOR, parameters)).all()]


async def count_waiting_for(
    connection: Connection,
    team_id: str,
    user_id: str,
    roles: Sequence[str],
    channels: Sequence[str],
    at_most: int = 1000,
) -> Count:
    """How many ``waiting_for`` would list on all its pages, counted up to ``at_most``.

    However much waits, at most twice as many rows are looked at: what this person may not decide, or has voted on,
    could otherwise be without end.
    """
    parameters = {
        "team": team_id,
        "user": user_id,
        "roles": [user_id, *roles],
        "channels": list(channels),
        "limit": 2 * at_most + 1,
    }
    row = (await connection.execute(_COUNT_WAITING_FOR, parameters)).one()
    return Count(min(row.theirs, at_most), row.theirs > at_most or row.looked_at > 2 * at_most)


async def audiences(connection: Connection, team_id: str) -> list[tuple[tuple[str, ...], str]]:
    """The different sets of approvers among what waits, each with the card's channel: few, however much waits."""
    rows = (await connection.execute(_AUDIENCES, {"team": team_id})).all()
    return [(tuple(row.approvers), row.channel_id) for row in rows]


async def requests_of(
    connection: Connection, person: Person, limit: int = 20, after: UUID | None = None
) -> list[RequestLine]:
    """What was asked on this person's behalf, newest first."""
    parameters = {"team": person.team_id, "user": person.user_id, "limit": limit, "after": after}
    return [_line(row) for row in (await connection.execute(_REQUESTS_OF, parameters)).all()]


async def recently_decided(connection: Connection, team_id: str, limit: int = 20) -> list[HistoryLine]:
    """What has an outcome, the latest outcome first."""
    return await history(connection, team_id, limit=limit)


async def history(
    connection: Connection,
    team_id: str,
    *,
    agent: str | None = None,
    person: Person | None = None,
    status: RequestStatus | None = None,
    since: datetime | None = None,
    limit: int = 20,
    after: UUID | None = None,
) -> list[HistoryLine]:
    """Requests that have an outcome, the latest first; what still waits is in none of it.

    ``person`` is who asked or who decided, ``since`` the earliest time of a decision.
    """
    parameters = {
        "agent": agent,
        "status": status.value if status else None,
        "since": since,
        "after": after,
    }
    given = {name: value for name, value in parameters.items() if value is not None}
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in given)
    of_whom = {"person_team": person.team_id, "person_user": person.user_id} if person else {}
    query = text((_OF_PERSON if person else _OF_TEAM).replace("{conditions}", conditions))
    rows = await connection.execute(query, {"team": team_id, "limit": limit, **of_whom, **given})
    return [_history_line(row) for row in rows]


def _line(row: Row[Any]) -> RequestLine:
    return RequestLine(**_shared(row))


def _history_line(row: Row[Any]) -> HistoryLine:
    return HistoryLine(
        **_shared(row),
        decided_by=person_of(row.decided_team_id, row.decided_user_id),
        decided_at=row.decided_at,
        reason=row.reason,
        thread=(row.channel_id, row.ts) if row.ts else None,
    )


def _shared(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "description": row.description,
        "agent": row.agent,
        "risk": Risk(row.risk),
        "status": RequestStatus(row.status),
        "requester": person_of(row.requester_team_id, row.requester_user_id),
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "channel_id": row.channel_id,
        "message_ts": row.ts,
        "approvals": row.approvals,
        "approvers": tuple(row.approvers),
        "voters": tuple(Person(team, user) for team, user in row.voters),
        "approvals_required": row.approvals_required,
        "above": tuple(row.above or ()),
    }


# What a line shows, of the requests of a page (`page`, with its order): looked up only for those.
_LINES = """
SELECT a.ancestor_agents AS above, r.id, v.description, r.agent, r.risk::text AS risk, r.status::text AS status,
       r.requester_team_id, r.requester_user_id, r.created_at, r.expires_at, r.channel_id, p.ts, r.approvals_required,
       (SELECT count(*) FROM vote AS b
        WHERE b.request_id = r.id AND b.revision = r.revision AND b.superseded_by IS NULL
          AND b.verdict = 'approve') AS approvals,
       r.approvers,
       (SELECT coalesce(json_agg(json_build_array(b.team_id, b.user_id)), '[]'::json) FROM vote AS b
        WHERE b.request_id = r.id AND b.revision = r.revision AND b.superseded_by IS NULL) AS voters,
       d.team_id AS decided_team_id, d.user_id AS decided_user_id, d.decided_at, d.reason
FROM page JOIN approval_request AS r ON r.id = page.id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
LEFT JOIN card_place AS p ON p.request_id = r.id AND p.surface = 'channel'
LEFT JOIN decision AS d ON d.request_id = r.id
LEFT JOIN agent_run AS a ON a.id = r.run_id
"""
_WAITING = text(f"""
WITH page AS MATERIALIZED (
    SELECT id FROM approval_request
    WHERE status = 'waiting' AND team_id = :team
      AND (CAST(:after AS uuid) IS NULL
           OR (created_at, id) > ((SELECT created_at FROM approval_request WHERE id = :after), CAST(:after AS uuid)))
    ORDER BY created_at, id LIMIT :limit
)
{_LINES} ORDER BY r.created_at, r.id
""")  # noqa: S608 - constants
_COUNT_WAITING = text("""
SELECT count(*) FROM (SELECT 1 FROM approval_request WHERE status = 'waiting' AND team_id = :team LIMIT :limit) AS w
""")
# From one audience to the next through the index, without reading what lies between them.
_AUDIENCE = """
audience AS (
    (SELECT approvers, channel_id FROM approval_request
     WHERE status = 'waiting' AND team_id = :team ORDER BY approvers, channel_id LIMIT 1)
    UNION ALL
    SELECT following.approvers, following.channel_id FROM audience AS a CROSS JOIN LATERAL (
        SELECT r.approvers, r.channel_id FROM approval_request AS r
        WHERE r.status = 'waiting' AND r.team_id = :team
          AND (r.approvers, r.channel_id) > (a.approvers, a.channel_id)
        ORDER BY r.approvers, r.channel_id LIMIT 1) AS following
)
"""
_AUDIENCES = text(f"WITH RECURSIVE {_AUDIENCE} SELECT approvers, channel_id FROM audience")  # noqa: S608 - constants
_THEIR_AUDIENCE = """
      jsonb_exists_any(a.approvers, CAST(:roles AS text[]))
      OR (jsonb_exists(a.approvers, 'channel') AND a.channel_id = ANY(CAST(:channels AS text[])))
"""
_THEIRS = """
      ((r.requester_team_id, r.requester_user_id) IS DISTINCT FROM (CAST(:team AS text), CAST(:user AS text))
       OR NOT (r.policy ->> 'prevent_self_review')::boolean)
      AND NOT EXISTS (SELECT 1 FROM vote AS b
                      WHERE b.request_id = r.id AND b.team_id = :team AND b.user_id = :user
                        AND b.superseded_by IS NULL AND b.revision = r.revision)
"""
_COUNT_WAITING_FOR = text(f"""
WITH RECURSIVE {_AUDIENCE}, looked AS MATERIALIZED (
    SELECT r.* FROM audience AS a CROSS JOIN LATERAL (
        SELECT id, revision, policy, requester_team_id, requester_user_id FROM approval_request
        WHERE status = 'waiting' AND team_id = :team AND approvers = a.approvers AND channel_id = a.channel_id
        ORDER BY id LIMIT :limit) AS r
    WHERE {_THEIR_AUDIENCE} LIMIT :limit
)
SELECT count(*) AS looked_at, count(*) FILTER (WHERE {_THEIRS}) AS theirs FROM looked AS r
""")  # noqa: S608 - constants
_WAITING_FOR = text(f"""
WITH RECURSIVE {_AUDIENCE}, page AS MATERIALIZED (
    SELECT mine.id FROM audience AS a CROSS JOIN LATERAL (
        SELECT r.id FROM approval_request AS r
        WHERE r.status = 'waiting' AND r.team_id = :team AND r.approvers = a.approvers
          AND r.channel_id = a.channel_id AND r.id > CAST(:after AS uuid)
          AND {_THEIRS}
        ORDER BY r.id LIMIT :limit) AS mine
    WHERE {_THEIR_AUDIENCE}
    ORDER BY mine.id LIMIT :limit
)
{_LINES} ORDER BY r.id
""")  # noqa: S608 - constants
_REQUESTS_OF = text(f"""
WITH page AS MATERIALIZED (
    SELECT id FROM approval_request
    WHERE requester_team_id = :team AND requester_user_id = :user
      AND (CAST(:after AS uuid) IS NULL
           OR (created_at, id) < ((SELECT created_at FROM approval_request WHERE id = :after), CAST(:after AS uuid)))
    ORDER BY created_at DESC, id DESC LIMIT :limit
)
{_LINES} ORDER BY r.created_at DESC, r.id DESC
""")  # noqa: S608 - constants
_CONDITIONS = {
    "agent": "r.agent = :agent",
    "status": "r.status = CAST(:status AS request_status)",
    "since": "r.decided_at >= :since",
    "after": "(r.decided_at, r.id) < ((SELECT decided_at FROM approval_request WHERE id = :after), :after)",
}
_OF_TEAM = f"""
WITH page AS MATERIALIZED (
    SELECT r.id FROM approval_request AS r
    WHERE r.team_id = :team AND r.decided_at IS NOT NULL{{conditions}}
    ORDER BY r.decided_at DESC, r.id DESC LIMIT :limit
)
{_LINES} ORDER BY r.decided_at DESC, r.id DESC
"""  # noqa: S608 - constants
_OF_PERSON = f"""
WITH page AS MATERIALIZED (
    (SELECT r.decided_at, r.id FROM approval_request AS r
     WHERE r.requester_team_id = :person_team AND r.requester_user_id = :person_user AND r.team_id = :team
       AND r.decided_at IS NOT NULL{{conditions}}
     ORDER BY r.decided_at DESC, r.id DESC LIMIT :limit)
    UNION
    (SELECT d.decided_at, r.id FROM decision AS d JOIN approval_request AS r ON r.id = d.request_id
     WHERE d.team_id = :person_team AND d.user_id = :person_user AND r.team_id = :team{{conditions}}
     ORDER BY d.decided_at DESC, d.request_id DESC LIMIT :limit)
    ORDER BY decided_at DESC, id DESC LIMIT :limit
)
{_LINES} ORDER BY r.decided_at DESC, r.id DESC
"""  # noqa: S608 - constants
