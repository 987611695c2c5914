"""People whose approval does not count, determined when the request opens and stored with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import text

from agent.database.transaction import Connection, query
from agent.domain.people import Exclusion, Involvement
from agent.store.rows import row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class Moment:
    """Values read under the transaction's locks."""

    now: datetime
    policy_epoch: int


async def involved(
    connection: Connection, call_id: UUID | None, api_key_id: UUID | None
) -> tuple[Moment, list[Exclusion]]:
    """The people involved besides the requester; for a call, behind its run's lock."""
    (moment,), people = await query(connection, _MOMENT, _INVOLVED, call=call_id, key=api_key_id)
    found = [Exclusion(Person(row.team_id, row.user_id), Involvement(row.why)) for row in people]
    return row_as(Moment, moment), found


def as_json(excluded: Iterable[Exclusion]) -> Jsonb:
    return Jsonb([{"team": e.person.team_id, "user": e.person.user_id, "why": e.why.value} for e in excluded])


def from_json(stored: Sequence[Mapping[str, str]]) -> tuple[Exclusion, ...]:
    return tuple(Exclusion(Person(e["team"], e["user"]), Involvement(e["why"])) for e in stored)


_MOMENT = text(
    "SELECT clock_timestamp() AS now, coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch"
)
# Messages and calls carry turn numbers, ordered by the run's lock, so no clock is needed. Reasons and notes have
# times, compared with the proposal's. A repeated call has the original's turn. The agent reads an approval's note and
# an edit with the call's answer. In parent runs, only what came before the delegating call counts; if that call is
# unknown, everything.
_INVOLVED = text("""
WITH RECURSIVE asked AS (
    SELECT id, repeats FROM tool_call WHERE id = :call
    UNION ALL SELECT earlier.id, earlier.repeats FROM asked JOIN tool_call AS earlier ON earlier.id = asked.repeats
), lineage AS (
    SELECT run_id, turn FROM tool_call WHERE id = :call
    UNION ALL
    SELECT child.parent_run_id, coalesce(above.turn, 2147483647)
    FROM tool_call AS own JOIN agent_run AS a ON a.id = own.run_id
    JOIN agent_run AS child ON child.id = ANY (a.ancestor_ids || a.id) AND child.parent_run_id IS NOT NULL
    LEFT JOIN tool_call AS above ON above.id = child.parent_call_id
    WHERE own.id = :call
), proposal AS (
    SELECT run_id, turn, coalesce((SELECT min(created_at) FROM tool_call
                                   WHERE run_id = lineage.run_id AND turn = lineage.turn), 'infinity') AS at
    FROM lineage
)
SELECT 'key_owner' AS why, owner_team_id AS team_id, owner_user_id AS user_id FROM api_key
WHERE id = coalesce((SELECT a.api_key_id FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
                     WHERE c.id = :call), CAST(:key AS uuid)) AND owner_user_id IS NOT NULL
UNION
SELECT 'instructor', m.author_team_id, m.author_user_id
FROM proposal JOIN run_message AS m ON m.run_id = proposal.run_id AND m.turn < proposal.turn
WHERE m.role = 'user' AND m.author_user_id IS NOT NULL
UNION
SELECT 'adviser', d.team_id, d.user_id
FROM proposal JOIN approval_request AS r ON r.run_id = proposal.run_id JOIN decision AS d ON d.request_id = r.id
WHERE d.outcome = 'rejected' AND btrim(d.reason) <> '' AND d.decided_at < proposal.at AND d.user_id IS NOT NULL
  AND NOT jsonb_exists(coalesce(nullif(r.policy -> 'reject_reasons', 'null'), '[]'), d.reason)
UNION
SELECT 'adviser', s.team_id, s.user_id
FROM proposal JOIN tool_call AS c ON c.run_id = proposal.run_id
JOIN execution AS e ON e.call_id = c.id JOIN settlement AS s ON s.execution_id = e.id
WHERE s.verdict = 'done' AND btrim(s.note) <> '' AND s.created_at < proposal.at
UNION
SELECT 'adviser', b.team_id, b.user_id
FROM proposal JOIN tool_call AS c ON c.run_id = proposal.run_id AND c.answered_at < proposal.at
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no AND r.status = 'approved'
JOIN vote AS b ON b.request_id = r.id AND b.revision = r.revision AND b.superseded_by IS NULL
WHERE b.verdict = 'approve' AND btrim(b.reason) <> ''
UNION
SELECT 'adviser', v.editor_team_id, v.editor_user_id
FROM proposal JOIN tool_call AS c ON c.run_id = proposal.run_id AND c.answered_at < proposal.at
JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no AND r.status = 'approved'
JOIN request_revision AS v ON v.request_id = r.id AND v.n <= r.revision
WHERE v.editor_user_id IS NOT NULL
UNION
SELECT 'editor', v.editor_team_id, v.editor_user_id
FROM asked JOIN approval_request AS r ON r.call_id = asked.id JOIN request_revision AS v ON v.request_id = r.id
WHERE v.editor_user_id IS NOT NULL
""")
