"""Decisions, with the lines and redrawn messages that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Transaction
from agent.domain.request import RequestStatus
from agent.domain.run import AnswerKind, CallState
from agent.store import outbox
from agent.store.ids import new_id
from agent.store.rows import columns
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision to store, with what its call becomes; `by` is None if no person decided."""

    request_id: UUID
    outcome: RequestStatus
    revision: int
    digest: bytes
    by: Person | None
    reason: str | None
    at: datetime
    call_id: UUID
    run_id: UUID | None
    agent: str
    call_state: CallState
    refused_as: AnswerKind | None
    run_channel: str | None = None
    approved_by: tuple[Person, ...] = ()


def insert(tx: Transaction, decisions: Sequence[StoredDecision]) -> None:
    """Store decisions and move their requests and calls on, in one statement."""
    tx.add_rows(_DECIDE, [columns(each, approved_by=_pairs(each.approved_by)) for each in decisions])


def add_run_lines(tx: Transaction, lines: Mapping[UUID, Mapping[str, object]]) -> None:
    """Lines by request. For a blocking call, only a reviewer's words unless the run ends."""
    rows = [
        {"id": new_id(), "request_id": request_id, "priority": outbox.LINE, "body": dict(body)}
        for request_id, body in lines.items()
    ]
    if rows:
        tx.add_rows(_ADD_RUN_LINES, rows)


def _pairs(people: Sequence[Person]) -> list[list[str]]:
    return [[each.team_id, each.user_id] for each in people]


def show_runs(tx: Transaction, call_ids: Sequence[UUID]) -> None:
    """Enqueue a redraw of the first message of these calls' runs, and of ancestors that work or have
    completed.
    """
    rows = [{"id": new_id(), "call_id": call_id} for call_id in call_ids]
    if rows:
        tx.add_rows(_SHOW_RUNS, rows, last=True)


_DECIDE = text("""
WITH e AS (
    SELECT * FROM json_to_recordset(:rows) AS t (
        request_id uuid, outcome request_status, revision int, digest bytea, by_team_id text, by_user_id text,
        reason text, at timestamptz, call_id uuid, call_state call_state, refused_as answer_kind, approved_by jsonb)
    LIMIT (SELECT CAST(:many AS int))
), decided AS (
    INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id, reason, decided_at, approved_by)
    SELECT request_id, outcome, revision, digest, by_team_id, by_user_id, reason, at, approved_by FROM e
), moved AS (
    UPDATE tool_call AS c
    SET state = CASE WHEN c.run_id IS NULL AND (c.executor = 'none' OR e.refused_as IS NOT NULL)
                     THEN CAST('answered' AS call_state) ELSE e.call_state END,
        answered_at = CASE WHEN c.run_id IS NULL AND (c.executor = 'none' OR e.refused_as IS NOT NULL) THEN e.at END,
        answer_kind = CASE WHEN c.executor = 'none' THEN coalesce(e.refused_as, 'result') ELSE e.refused_as END,
        answer = CASE WHEN c.run_id IS NOT NULL AND e.refused_as IS NOT NULL THEN coalesce(e.reason, '') END,
        lapse_at = CASE WHEN c.executor = 'program' AND e.call_state = 'ready'
                        THEN e.at + time_to_claim(c.id, c.ask_no) END
    FROM e
    WHERE c.id = e.call_id AND c.state = 'asked'
)
UPDATE approval_request AS r SET status = e.outcome, decided_at = e.at
FROM e WHERE r.id = e.request_id AND r.status = 'waiting'
""")
_ADD_RUN_LINES = text("""
INSERT INTO delivery (id, kind, priority, team_id, channel_id, run_id, body)
SELECT e.id, 'run_line', e.priority, a.team_id, a.channel_id, a.id,
       e.body || jsonb_build_object('text', v.description)
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, request_id uuid, priority smallint, body jsonb)
      LIMIT (SELECT CAST(:many AS int))) AS e
JOIN approval_request AS r ON r.id = e.request_id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
JOIN tool_call AS c ON c.id = r.call_id AND (
    NOT c.blocking OR btrim(e.body ->> 'reason') <> ''
        AND NOT (e.body ->> 'outcome' = 'rejected' AND (
            SELECT content ->> 'on_reject' FROM rule WHERE digest = r.rule_digest) = 'stop'))
JOIN agent_run AS a ON a.id = c.run_id AND a.channel_id IS NOT NULL
""")
# Only this statement knows the number of rows: each has the time of its call's id and a random half of its own.
_SHOW_RUNS = text("""
INSERT INTO delivery (id, kind, priority, team_id, channel_id, run_id, body, coalesce_key)
SELECT DISTINCT ON (a.id) CAST(left(CAST(e.id AS text), 19) || right(CAST(gen_random_uuid() AS text), 17) AS uuid),
       CAST('run_root' AS delivery_kind), 1, a.team_id, a.channel_id, a.id, CAST('{}' AS jsonb), 'run:' || a.id
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, call_id uuid) LIMIT (SELECT CAST(:many AS int))) AS e
JOIN tool_call AS c ON c.id = e.call_id
JOIN agent_run AS r ON r.id = c.run_id
JOIN agent_run AS a ON a.id = ANY (r.ancestor_ids || r.id) AND a.channel_id IS NOT NULL
WHERE a.status IN ('working', 'pending_approval', 'completed')
ORDER BY a.id
ON CONFLICT (coalesce_key) WHERE state = 'pending' AND coalesce_key IS NOT NULL
DO UPDATE SET wanted = delivery.wanted + 1
""")
