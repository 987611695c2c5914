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
from agent.domain.request import EXTERNAL
from agent.store.rows import columns, row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class Moment:
    """Values read under the transaction's locks."""

    now: datetime
    policy_epoch: int


@dataclass(frozen=True, slots=True)
class ProgramLineage:
    """Which earlier questions of a key's program shaped this one."""

    principal: str
    api_key_id: UUID | None
    agent: str
    tool: str
    session: str | None = None
    only_session: bool = False
    """The key is trusted to tell its sessions apart."""


Lineage = UUID | ProgramLineage
"""A run's call: the whole family of its run counts. Or a program's question."""


async def involved(connection: Connection, lineage: Lineage | None) -> tuple[Moment, list[Exclusion]]:
    """The people involved besides the requester; for a call, behind its run's lock. None: nobody asks."""
    if lineage is None:
        (moment,) = await query(connection, _MOMENT)
        return row_as(Moment, moment[0]), []
    if isinstance(lineage, UUID):
        (moment,), people = await query(connection, _MOMENT, _OF_CALL, call=lineage)
    else:
        (moment,), people = await query(connection, _MOMENT, _OF_PROGRAM, **columns(lineage, none=EXTERNAL))
    found = [Exclusion(Person(row.team_id, row.user_id), Involvement(row.why)) for row in people]
    return row_as(Moment, moment), found


def as_json(excluded: Iterable[Exclusion]) -> Jsonb:
    """Return exclusions as the JSON array that a request stores."""
    return Jsonb([{"team": e.person.team_id, "user": e.person.user_id, "why": e.why.value} for e in excluded])


def from_json(stored: Sequence[Mapping[str, str]]) -> tuple[Exclusion, ...]:
    """Return the exclusions that a request stores, in their order."""
    return tuple(Exclusion(Person(e["team"], e["user"]), Involvement(e["why"])) for e in stored)


_MOMENT = text(
    "SELECT clock_timestamp() AS now, coalesce((SELECT max(epoch) FROM policy), 0) AS policy_epoch"
)
# Own words count from their commit on, whether they were read or not, in the whole family of a run: times are the
# database's. A proposal is as old as the first call of its turn; a call that is asked again has the original's turn.
_OF_CALL = text("""
WITH RECURSIVE asked AS (
    SELECT id, repeats FROM tool_call WHERE id = :call
    UNION ALL SELECT earlier.id, earlier.repeats FROM asked JOIN tool_call AS earlier ON earlier.id = asked.repeats
), proposal AS (
    SELECT own.run_id, coalesce(a.ancestor_ids[1], a.id) AS root, own.turn, a.api_key_id,
           (SELECT min(created_at) FROM tool_call WHERE run_id = own.run_id AND turn = own.turn) AS at
    FROM tool_call AS own JOIN agent_run AS a ON a.id = own.run_id WHERE own.id = :call
), family AS (
    SELECT root AS id FROM proposal
    UNION SELECT child.id FROM family JOIN agent_run AS child ON child.parent_run_id = family.id
)
SELECT 'key_owner' AS why, owner_team_id AS team_id, owner_user_id AS user_id
FROM proposal JOIN api_key ON api_key.id = proposal.api_key_id WHERE owner_user_id IS NOT NULL
UNION
SELECT 'instructor', m.author_team_id, m.author_user_id
FROM proposal, family JOIN run_message AS m ON m.run_id = family.id
WHERE m.role = 'user' AND m.author_user_id IS NOT NULL
  AND CASE WHEN m.run_id = proposal.run_id THEN m.turn < proposal.turn ELSE m.created_at < proposal.at END
UNION
SELECT 'adviser', d.team_id, d.user_id
FROM proposal, family JOIN approval_request AS r ON r.run_id = family.id JOIN decision AS d ON d.request_id = r.id
WHERE d.outcome = 'rejected' AND btrim(d.reason) <> '' AND d.decided_at < proposal.at AND d.user_id IS NOT NULL
  AND NOT jsonb_exists(coalesce(nullif(
      (SELECT content -> 'reject_reasons' FROM rule WHERE digest = r.rule_digest), 'null'), '[]'), d.reason)
UNION
SELECT 'adviser', b.team_id, b.user_id
FROM proposal, family JOIN approval_request AS r ON r.run_id = family.id JOIN vote AS b ON b.request_id = r.id
WHERE b.verdict = 'approve' AND btrim(b.reason) <> '' AND b.created_at < proposal.at
UNION
SELECT 'adviser', b.team_id, b.user_id
FROM proposal, family JOIN approval_request AS r ON r.run_id = family.id
JOIN answer AS w ON w.request_id = r.id JOIN vote AS b ON b.id = w.vote_id
WHERE w.own_words AND w.created_at < proposal.at
UNION
SELECT 'adviser', s.team_id, s.user_id
FROM proposal, family JOIN tool_call AS c ON c.run_id = family.id
JOIN execution AS e ON e.call_id = c.id JOIN settlement AS s ON s.execution_id = e.id
WHERE s.verdict = 'done' AND btrim(s.note) <> '' AND s.created_at < proposal.at
UNION
SELECT CASE WHEN r.call_id IN (SELECT id FROM asked) THEN 'editor' ELSE 'earlier_editor' END,
       v.editor_team_id, v.editor_user_id
FROM proposal, family JOIN approval_request AS r ON r.run_id = family.id
JOIN request_revision AS v ON v.request_id = r.id
WHERE v.editor_user_id IS NOT NULL AND (v.created_at < proposal.at OR r.call_id IN (SELECT id FROM asked))
""")
# Starts from the words, which people write, and not from the questions, of which a program may ask very many.
_OF_PROGRAM = text("""
WITH since AS (SELECT clock_timestamp() - interval '24 hours' AS at), words AS (
    SELECT 'adviser' AS why, d.team_id, d.user_id, d.request_id, d.reason FROM decision AS d
    WHERE d.outcome = 'rejected' AND btrim(d.reason) <> '' AND d.decided_at > (SELECT at FROM since)
      AND d.user_id IS NOT NULL
    UNION ALL
    SELECT 'adviser', b.team_id, b.user_id, b.request_id, NULL FROM vote AS b
    WHERE b.verdict = 'approve' AND btrim(b.reason) <> '' AND b.created_at > (SELECT at FROM since)
    UNION ALL
    SELECT 'adviser', b.team_id, b.user_id, b.request_id, NULL FROM answer AS w JOIN vote AS b ON b.id = w.vote_id
    WHERE w.own_words AND w.created_at > (SELECT at FROM since)
    UNION ALL
    SELECT 'adviser', s.team_id, s.user_id, e.request_id, NULL FROM settlement AS s
    JOIN execution AS e ON e.id = s.execution_id
    WHERE btrim(s.note) <> '' AND s.created_at > (SELECT at FROM since)
    UNION ALL
    SELECT 'earlier_editor', v.editor_team_id, v.editor_user_id, v.request_id, NULL FROM request_revision AS v
    WHERE v.editor_user_id IS NOT NULL AND v.created_at > (SELECT at FROM since)
)
SELECT 'key_owner' AS why, owner_team_id AS team_id, owner_user_id AS user_id FROM api_key
WHERE id = CAST(:api_key_id AS uuid) AND owner_user_id IS NOT NULL
UNION
SELECT words.why, words.team_id, words.user_id
FROM words JOIN approval_request AS r ON r.id = words.request_id JOIN tool_call AS c ON c.id = r.call_id
WHERE c.principal = :principal
  AND (words.reason IS NULL
       OR NOT jsonb_exists(coalesce(nullif(
           (SELECT content -> 'reject_reasons' FROM rule WHERE digest = r.rule_digest), 'null'), '[]'), words.reason))
  AND (c.session = :session
       OR (:session IS NULL OR NOT CAST(:only_session AS boolean))
          AND CASE WHEN :tool = :none THEN c.agent = :agent
              ELSE EXISTS (SELECT FROM request_revision AS v
                           WHERE v.request_id = r.id AND v.n = r.revision AND v.tool = :tool) END)
""")
