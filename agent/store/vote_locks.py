"""Lock and read what any number of votes and edits need, in one round trip.

Locks come first, level by level and by id, then reads: PostgreSQL evaluates a locking statement's own expressions
before it waits. Many requests at once wait for nothing; a row locked elsewhere is then locked alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, query
from agent.domain.answers import AnswerForm
from agent.domain.audit import request_subject
from agent.domain.consent_terms import ConsentTerms
from agent.domain.request import RequestStatus, StoredPlace, Verdict
from agent.domain.rules import DecideTogether
from agent.store import audit, call_locks, claimable_calls, consent_terms, pause
from agent.store.audit import ChainHead
from agent.store.claimable_calls import ClaimableCall
from agent.store.request_locks import LockedRequest
from agent.store.rows import people, person, row_as
from signoff.values import Person, Risk


@dataclass(frozen=True, slots=True)
class StoredVote:
    """A vote that is not superseded; ``revision`` may be an earlier one."""

    id: UUID
    person: Person
    verdict: Verdict
    revision: int
    answer: str | None
    """The SHA-256 of what it answers, in hex."""


@dataclass(frozen=True, slots=True)
class ReviewedRequest(LockedRequest):
    """A request, locked with its call and audit chain, and all that votes and edits are judged by."""

    terms: ConsentTerms
    terms_stand: bool
    """They are those of the audit log."""
    digest: bytes  # of the current revision
    editor: Person | None
    votes: tuple[StoredVote, ...]
    decided_by: Person | None
    approved_by: tuple[Person, ...]
    place: StoredPlace | None
    head: ChainHead
    background: bool
    run_channel: str | None
    """Of the run's first message."""
    webhooks: bool
    answer_form: AnswerForm | None
    source: str
    risk: Risk
    decide_together: DecideTogether
    call: ClaimableCall | None


async def lock(
    connection: Connection,
    asked: Mapping[UUID, str | None],
    *,
    wait: bool,
    claims: Collection[UUID] = (),
    judged: bool = False,
) -> dict[UUID, ReviewedRequest]:
    """Lock requests, each with the place of its nonce; unknown ones are left out.

    Without ``wait``, also those locked elsewhere. Those of ``claims`` come with their calls, if claimable, without
    waiting for pause switch or runs. ``judged``: hold the switch, for an evaluation's result.
    """
    first = (pause.TRY_HOLD, _TRY_RUNS) if claims and wait else (pause.HOLD,) if judged else ()
    locks = (_TAKE_REQUESTS, call_locks.TAKE_ASKED, audit.TAKE_HEADS) if wait else (_TRY,)
    found = await query(
        connection,
        *first,
        *locks,
        _READ,
        *((claimable_calls.READ,) if claims else ()),
        ids=list(asked),
        subjects=[request_subject(each) for each in asked],
        nonces=list(asked.values()),
        claims=list(claims),
    )
    calls = found.pop() if claims else []
    *taken, read = found
    locked, chains = audit.ids_and_heads(taken)
    locked_calls = {row.call_id for each in taken for row in each if getattr(row, "call_id", None)}
    held = any(getattr(row, "held", False) for each in taken for row in each)
    to_claim = {
        row.request_id: claimable_calls.from_row(row) for row in calls if held and row.run_id in locked
    }
    return {
        row.id: _reviewed(row, chains[request_subject(row.id)], to_claim.get(row.id))
        for row in read
        if _is_locked(row, locked, locked_calls, chains)
    }


def _is_locked(
    row: Row[Any], locked: Collection[UUID], locked_calls: Collection[UUID], heads: Collection[str]
) -> bool:
    """Calls are told apart: that of a program's question has the id of its request."""
    of_call = row.status != RequestStatus.WAITING or row.call_id in locked_calls
    return row.id in locked and of_call and request_subject(row.id) in heads


def _reviewed(row: Row[Any], head: Row[Any], call: ClaimableCall | None) -> ReviewedRequest:
    by = person(row.place_team_id, row.place_user_id)
    terms = consent_terms.stored(row)
    place = None
    if row.surface:
        place = StoredPlace(row.surface, by, row.place_channel, row.place_ts, tuple(row.place_closed))
    return row_as(
        ReviewedRequest,
        row,
        terms=terms,
        answer_form=AnswerForm.stored(row.answer_form) if row.answer_form else None,
        terms_stand=terms.digest == row.terms_recorded,
        excluded=terms.excluded,
        votes=tuple(map(_vote, row.votes)),
        approved_by=people(row.approved_by or ()),
        place=place,
        head=ChainHead(head.subject, head.seq, bytes(head.hash), row.at),
        call=call,
    )


def _vote(stored: Mapping[str, Any]) -> StoredVote:
    by = Person(stored["team"], stored["user"])
    return StoredVote(
        UUID(stored["id"]), by, Verdict(stored["verdict"]), stored["revision"], stored["answer"]
    )


# ARRAY(…) keeps the plan, as in `runs.READ`. OFFSET 0 keeps PostgreSQL from joining whole tables.
_TRY_RUNS = text("""
SELECT id FROM agent_run WHERE id = ANY (ARRAY(
    SELECT run_id FROM approval_request WHERE id = ANY (ARRAY(SELECT unnest(CAST(:claims AS uuid[]))))))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
_TAKE_REQUESTS = text("""
SELECT id FROM approval_request WHERE id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE
""")
# One statement, because nothing waits: each part depends on those before. A row written since it began is locked and
# read as it is now.
_TRY = text("""
WITH switch AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock_shared(hashtextextended('signoff pause ' || current_schema(), 0)) AS held
    WHERE cardinality(CAST(:claims AS uuid[])) > 0
), run AS MATERIALIZED (
    SELECT a.id FROM agent_run AS a WHERE a.id = ANY (ARRAY(
        SELECT run_id FROM approval_request WHERE id = ANY (ARRAY(SELECT unnest(CAST(:claims AS uuid[]))))))
      AND (SELECT count(*) FROM switch) >= 0
    ORDER BY a.id FOR NO KEY UPDATE OF a SKIP LOCKED
), request AS MATERIALIZED (
    SELECT r.id FROM approval_request AS r WHERE r.id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
      AND (SELECT count(*) FROM run) >= 0
    ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
), call AS MATERIALIZED (
    SELECT c.id FROM tool_call AS c WHERE c.id = ANY (ARRAY(
        SELECT call_id FROM approval_request WHERE id = ANY (ARRAY(SELECT id FROM request)) AND status = 'waiting'))
    ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED
), head AS MATERIALIZED (
    SELECT h.subject, h.seq, h.hash FROM audit_head AS h
    WHERE h.subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[])))) AND (SELECT count(*) FROM call) >= 0
    ORDER BY h.subject FOR NO KEY UPDATE OF h SKIP LOCKED
)
SELECT CAST(NULL AS uuid) AS id, CAST(NULL AS uuid) AS call_id, CAST(NULL AS boolean) AS held,
       subject, seq, hash FROM head
UNION ALL SELECT NULL, NULL, held, NULL, NULL, NULL FROM switch
UNION ALL SELECT id, NULL, NULL, NULL, NULL, NULL FROM run
UNION ALL SELECT id, NULL, NULL, NULL, NULL, NULL FROM request
UNION ALL SELECT NULL, id, NULL, NULL, NULL, NULL FROM call
""")
_READ = text("""
SELECT each.* FROM unnest(ARRAY(SELECT unnest(CAST(:ids AS uuid[]))), ARRAY(SELECT unnest(CAST(:nonces AS text[]))))
    AS asked (id, nonce)
JOIN LATERAL (
    SELECT r.id, r.call_id, r.run_id, r.agent, r.status::text AS status, r.revision, r.team_id, r.channel_id,
           r.approvals_required, r.expires_at, r.decided_at, r.approvers, r.excluded, r.requester_team_id,
           r.requester_user_id,
           (SELECT detail ->> 'terms' FROM audit_event
            WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
            ORDER BY seq DESC LIMIT 1) AS terms_recorded,
           rule.content -> 'reason_required' AS reason_required, r.answer_form, r.source, r.risk::text AS risk,
           coalesce(rule.content ->> 'decide_together', 'never') AS decide_together,
           coalesce((rule.content ->> 'allow_edit')::boolean, false) AS allow_edit,
           coalesce((rule.content ->> 'editor_may_approve')::boolean, false) AS editor_may_approve,
           v.tool, v.digest, v.editor_team_id, v.editor_user_id,
           d.team_id AS decided_by_team_id, d.user_id AS decided_by_user_id, d.approved_by,
           p.surface::text AS surface, p.channel_id AS place_channel, p.ts AS place_ts,
           p.closed AS place_closed,
           p.team_id AS place_team_id, p.user_id AS place_user_id,
           c.run_id IS NOT NULL AND NOT c.blocking AS background, (SELECT clock_timestamp()) AS at,
           (SELECT channel_id FROM agent_run WHERE id = c.run_id) AS run_channel,
           EXISTS (SELECT FROM webhook WHERE removed_at IS NULL) AS webhooks,
           (SELECT coalesce(json_agg(json_build_object('id', id, 'team', team_id, 'user', user_id, 'verdict', verdict,
                                                       'revision', revision, 'answer', encode(w.digest, 'hex'))
                                     ORDER BY id), '[]'::json)
            FROM vote AS b LEFT JOIN answer AS w ON w.vote_id = b.id
            WHERE b.request_id = r.id AND superseded_by IS NULL) AS votes
    FROM approval_request AS r
    JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    JOIN tool_call AS c ON c.id = r.call_id
    JOIN rule ON rule.digest = r.rule_digest
    LEFT JOIN card_place AS p ON p.request_id = r.id AND p.nonce = asked.nonce
    LEFT JOIN decision AS d ON d.request_id = r.id
    WHERE r.id = asked.id OFFSET 0
) AS each ON true
""")
