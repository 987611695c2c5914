"""The one way in which a request ends: its outcome, what becomes of its call, who is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text

from agent import tracing
from agent.database import jobs
from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind
from agent.domain.request import RequestStatus
from agent.metrics import DECISIONS
from agent.store import audit, outbound, outbox
from agent.store.audit import AuditEntry, ChainHead
from agent.store.ids import new_id
from agent.store.outbox import Destination
from signoff.values import Person

log = structlog.get_logger(__name__)

MOST_HINTS = 50
"""Endings at once whose calls are hinted. What more end together are left to the sweep, which brings as many as can
be worked on: a queue of a hundred thousand hints would slow down every look at it."""


@dataclass(frozen=True, slots=True)
class RequestEnding:
    """How a waiting request ends. The row is locked by the caller, and its chain's head read."""

    request_id: UUID
    call_id: UUID | None
    destination: Destination
    revision: int
    digest: bytes
    outcome: RequestStatus
    by: Person | None
    reason: str | None
    head: ChainHead
    principal: str | None = None
    """The key whose call ended it, where no person did."""
    judged_anew: bool = False
    """Its call is not refused with it but judged once more, and people asked about it again."""

    @property
    def at(self) -> datetime:
        return self.head.at


_ENDING_KINDS = {
    RequestStatus.APPROVED: AuditKind.REQUEST_DECIDED,
    RequestStatus.REJECTED: AuditKind.REQUEST_DECIDED,
    RequestStatus.EXPIRED: AuditKind.REQUEST_EXPIRED,
    RequestStatus.CANCELLED: AuditKind.REQUEST_WITHDRAWN,
}
_ENDING_LINES = {
    RequestStatus.APPROVED: "approved",
    RequestStatus.REJECTED: "rejected",
    RequestStatus.EXPIRED: "expired",
    RequestStatus.CANCELLED: "withdrawn",
}
# How the waiting call goes on, and why (the answer's kind).
_CALL_GOES_ON = {
    RequestStatus.APPROVED: ("ready", None),
    RequestStatus.REJECTED: ("refused", "rejected"),
    RequestStatus.EXPIRED: ("refused", "expired"),
    RequestStatus.CANCELLED: ("refused", "withdrawn"),
}


def end_requests(
    tx: Transaction, endings: Sequence[RequestEnding], earlier: Sequence[tuple[ChainHead, AuditEntry]] = ()
) -> None:
    """Write decisions, move the requests and their calls, record it, tell it, and hint what goes on.

    ``earlier`` are entries for the same chains that come before the decision (the deciding vote).
    """
    if not endings:
        return
    tx.add_rows(_DECIDE, [_decision(e) for e in endings])
    for each in endings:
        tx.after_commit(partial(_note, each))
        tx.after_commit(partial(tracing.note_end, "request", each.request_id))
    _move_calls(tx, endings)
    heads = audit.append_all(tx, [*earlier, *((e.head, _ending_entry(e)) for e in endings)])
    tx.ended({e.request_id: heads[e.head.subject].seq for e in endings})
    outbox.enqueue(
        tx,
        [
            message
            for e in endings
            for message in (
                outbox.card(e.destination, e.request_id),
                outbox.request_line(
                    e.destination,
                    e.request_id,
                    _ENDING_LINES[e.outcome],
                    e.by,
                    reason=e.reason,
                    at=e.at.isoformat(),
                ),
            )
        ],
    )
    outbound.enqueue_decided(tx, [e.request_id for e in endings])


def _note(ending: RequestEnding) -> None:
    DECISIONS.labels(ending.outcome.value).inc()
    log.info(
        "a request has its outcome",
        action=f"request.{ending.outcome.value}",
        request_id=str(ending.request_id),
        revision=ending.revision,
    )


def _move_calls(tx: Transaction, endings: Sequence[RequestEnding]) -> None:
    moved = [e for e in endings if e.call_id is not None]
    if not moved:
        return
    tx.add_rows(_MOVE_CALLS, [_moved_call(e) for e in moved])
    tx.add_rows(_TELL_RUNS, [_told_in_run(e) for e in moved])
    if len(moved) <= MOST_HINTS:
        tx.hint(*(jobs.execute_call(e.call_id, decided=e.by is not None) for e in moved if e.call_id))


def _decision(ending: RequestEnding) -> dict[str, Any]:
    return {
        "request_id": ending.request_id,
        "outcome": ending.outcome.value,
        "revision": ending.revision,
        "digest": ending.digest,
        "team_id": ending.by.team_id if ending.by else None,
        "user_id": ending.by.user_id if ending.by else None,
        "reason": ending.reason,
        "decided_at": ending.at,
    }


def _moved_call(ending: RequestEnding) -> dict[str, Any]:
    state, kind = ("new", None) if ending.judged_anew else _CALL_GOES_ON[ending.outcome]
    return {"id": ending.call_id, "state": state, "kind": kind, "answer": ending.reason or ""}


def _told_in_run(ending: RequestEnding) -> dict[str, Any]:
    """Whoever started a call that went on in the background reads in the run's thread who decided."""
    by = ending.by
    line = {
        "line": "decided",
        "outcome": ending.outcome.value,
        "team": by.team_id if by else None,
        "user": by.user_id if by else None,
        "reason": ending.reason,
        "at": ending.at,
    }
    return {"id": new_id(), "request_id": ending.request_id, "priority": outbox.LINE, "body": line}


def _ending_entry(ending: RequestEnding) -> AuditEntry:
    detail = {
        "outcome": ending.outcome.value,
        "revision": ending.revision,
        "digest": ending.digest.hex(),
    }
    actor = audit.actor(ending.by) if ending.by or not ending.principal else ending.principal
    return AuditEntry(_ENDING_KINDS[ending.outcome], actor, detail)


_DECIDE = text("""
WITH e AS (
    SELECT * FROM json_to_recordset(:rows) AS t (
        request_id uuid, outcome request_status, revision int, digest bytea, team_id text, user_id text, reason text,
        decided_at timestamptz)
    LIMIT (SELECT CAST(:many AS int))
), decided AS (
    INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id, reason, decided_at)
    SELECT * FROM e
)
UPDATE approval_request AS r SET status = e.outcome, decided_at = e.decided_at,
    lapse_at = CASE WHEN e.outcome = 'approved' AND r.call_id IS NULL
                    THEN e.decided_at + make_interval(secs => (r.policy->>'execute_within')::float) END
FROM e WHERE r.id = e.request_id AND r.status = 'waiting'
""")
_MOVE_CALLS = text("""
UPDATE tool_call AS c SET state = e.state, answer_kind = e.kind,
                          answer = CASE WHEN e.kind IS NULL THEN NULL ELSE e.answer END
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, state call_state, kind answer_kind, answer text)
      LIMIT (SELECT CAST(:many AS int))) AS e
WHERE c.id = e.id AND c.state = 'asked'
""")
_TELL_RUNS = text("""
INSERT INTO delivery (id, kind, priority, team_id, channel_id, run_id, body)
SELECT e.id, 'run_line', e.priority, a.team_id, a.channel_id, a.id,
       e.body || jsonb_build_object('text', v.description)
FROM (SELECT * FROM json_to_recordset(:rows) AS t (id uuid, request_id uuid, priority smallint, body jsonb)
      LIMIT (SELECT CAST(:many AS int))) AS e
JOIN approval_request AS r ON r.id = e.request_id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
JOIN tool_call AS c ON c.id = r.call_id AND NOT c.blocking
JOIN agent_run AS a ON a.id = c.run_id AND a.channel_id IS NOT NULL
""")
