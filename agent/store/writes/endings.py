"""The one way in which a request ends: its outcome, what becomes of its call, who is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent import jobs
from agent.domain.audit import AuditKind
from agent.domain.people import Person
from agent.domain.request import RequestStatus
from agent.store import chain, notices, outbox
from agent.store.batch import Batch
from agent.store.chain import ChainHead, Entry
from agent.store.ids import new_id
from agent.store.outbox import Outlet


@dataclass(frozen=True, slots=True)
class Ending:
    """How a waiting request ends. The row is locked by the caller, and its chain's head read."""

    request_id: UUID
    call_id: UUID | None
    outlet: Outlet
    revision: int
    digest: bytes
    outcome: RequestStatus
    by: Person | None
    reason: str | None
    head: ChainHead
    principal: str | None = None
    """The key whose call ended it, where no person did."""

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


def end(batch: Batch, endings: Sequence[Ending], earlier: Sequence[tuple[ChainHead, Entry]] = ()) -> None:
    """Write decisions, move the requests and their calls, record it, tell it, and hint what goes on.

    ``earlier`` are entries for the same chains that come before the decision (the deciding vote).
    """
    if not endings:
        return
    batch.add(
        _INSERT_DECISIONS,
        ids=[e.request_id for e in endings],
        outcomes=[e.outcome.value for e in endings],
        revisions=[e.revision for e in endings],
        digests=[e.digest for e in endings],
        teams=[e.by.team_id if e.by else None for e in endings],
        users=[e.by.user_id if e.by else None for e in endings],
        reasons=[e.reason for e in endings],
        ats=[e.at for e in endings],
    )
    batch.add(
        _END_REQUESTS,
        ids=[e.request_id for e in endings],
        outcomes=[e.outcome.value for e in endings],
        ats=[e.at for e in endings],
    )
    _move_calls(batch, endings)
    chain.append_all(batch, [*earlier, *((e.head, _ending_entry(e)) for e in endings)])
    outbox.tell(
        batch,
        [
            telling
            for e in endings
            for telling in (
                outbox.card(e.outlet, e.request_id),
                outbox.request_line(
                    e.outlet,
                    e.request_id,
                    _ENDING_LINES[e.outcome],
                    e.by,
                    reason=e.reason,
                    at=e.at.isoformat(),
                ),
            )
        ],
    )
    notices.decided(batch, [e.request_id for e in endings])


def _move_calls(batch: Batch, endings: Sequence[Ending]) -> None:
    moved = [e for e in endings if e.call_id is not None]
    if not moved:
        return
    batch.add(
        _MOVE_CALLS,
        ids=[e.call_id for e in moved],
        states=[_CALL_GOES_ON[e.outcome][0] for e in moved],
        kinds=[_CALL_GOES_ON[e.outcome][1] for e in moved],
        answers=[e.reason or "" for e in moved],
    )
    batch.add(
        _TELL_RUNS,
        ids=[new_id() for _ in moved],
        requests=[e.request_id for e in moved],
        bodies=[_told_in_run(e) for e in moved],
        priority=outbox.LINE,
    )
    batch.hint(*(jobs.execute_call(e.call_id) for e in moved if e.call_id))


def _told_in_run(ending: Ending) -> str:
    """Whoever started a call that went on in the background reads in the run's thread who decided, as JSON."""
    by = ending.by
    return json.dumps(
        {
            "line": "decided",
            "outcome": ending.outcome.value,
            "team": by.team_id if by else None,
            "user": by.user_id if by else None,
            "reason": ending.reason,
            "at": ending.at.isoformat(),
        }
    )


def _ending_entry(ending: Ending) -> Entry:
    detail = {
        "outcome": ending.outcome.value,
        "revision": ending.revision,
        "digest": ending.digest.hex(),
    }
    actor = chain.actor(ending.by) if ending.by or not ending.principal else ending.principal
    return Entry(_ENDING_KINDS[ending.outcome], actor, detail)


_INSERT_DECISIONS = """
INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id, reason, decided_at)
SELECT * FROM unnest(%(ids)s::uuid[], %(outcomes)s::request_status[], %(revisions)s::int[], %(digests)s::bytea[],
                     %(teams)s::text[], %(users)s::text[], %(reasons)s::text[], %(ats)s::timestamptz[])
"""
_END_REQUESTS = """
UPDATE approval_request AS r SET status = e.outcome, decided_at = e.at,
    lapse_at = CASE WHEN e.outcome = 'approved' AND r.call_id IS NULL
                    THEN e.at + make_interval(secs => (r.policy->>'execute_within')::float) END
FROM unnest(%(ids)s::uuid[], %(outcomes)s::request_status[], %(ats)s::timestamptz[]) AS e (id, outcome, at)
WHERE r.id = e.id AND r.status = 'waiting'
"""
_MOVE_CALLS = """
UPDATE tool_call AS c SET state = e.state, answer_kind = e.kind,
                          answer = CASE WHEN e.kind IS NULL THEN NULL ELSE e.answer END
FROM unnest(%(ids)s::uuid[], %(states)s::call_state[], %(kinds)s::answer_kind[], %(answers)s::text[])
     AS e (id, state, kind, answer)
WHERE c.id = e.id AND c.state = 'asked'
"""
# The drain of the run's channel is hinted by what follows there (the answer), or found by the sweep.
_TELL_RUNS = """
INSERT INTO delivery (id, kind, priority, team_id, channel_id, run_id, body)
SELECT e.id, 'run_line', %(priority)s, a.team_id, a.channel_id, a.id,
       e.body || jsonb_build_object('text', v.description)
FROM unnest(%(ids)s::uuid[], %(requests)s::uuid[], %(bodies)s::jsonb[]) AS e (id, request_id, body)
JOIN approval_request AS r ON r.id = e.request_id
JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
JOIN tool_call AS c ON c.id = r.call_id AND NOT c.blocking
JOIN agent_run AS a ON a.id = c.run_id AND a.channel_id IS NOT NULL
"""
