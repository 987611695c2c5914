"""What a vote, or an edit, locks and reads of requests before anything is decided: one round trip for any number.

First the locks, level by level and by id, then one statement that reads: PostgreSQL evaluates a locking statement's own
expressions before it waits. Many at once wait for nothing: what somebody else holds is left out, and is locked alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, query
from agent.domain.audit import request_subject
from agent.domain.request import StoredPlace, Verdict
from agent.store import call_locks, exclusions
from agent.store.audit import ChainHead
from agent.store.request_locks import LockedRequest
from agent.store.rows import person, row_as
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class StoredVote:
    """A vote that is not superseded; ``revision`` may be an earlier one."""

    id: UUID
    person: Person
    verdict: Verdict
    revision: int


@dataclass(frozen=True, slots=True)
class ReviewedRequest(LockedRequest):
    """A locked request, with what reviewers did so far as it stands after the lock."""

    digest: bytes  # of the present revision
    editor: Person | None  # whose edit made it
    votes: tuple[StoredVote, ...]
    decided_by: Person | None
    place: StoredPlace | None
    head: ChainHead
    blocking: bool
    """Its run waits for its call, or it has none."""


async def lock(
    connection: Connection, asked: Mapping[UUID, str | None], *, wait: bool
) -> dict[UUID, ReviewedRequest]:
    """These requests, locked, each with the place that its nonce names; those that are unknown stay out.

    Without ``wait``, those that somebody else holds stay out as well, whole or in part.
    """
    ids = list(asked)
    locks = (
        (_TAKE_REQUESTS, call_locks.TAKE_ASKED, _TAKE_HEADS)
        if wait
        else (_TRY_REQUESTS, _TRY_CALLS, _TRY_HEADS)
    )
    requests, calls, heads, found = await query(
        connection,
        *locks,
        _READ,
        ids=ids,
        subjects=[request_subject(each) for each in ids],
        nonces=[nonce for nonce in asked.values() if nonce],
    )
    held = {row.id for row in requests}, {row.id for row in calls}
    chains = {row.subject: row for row in heads}
    return {
        row.id: _reviewed(row, chains[request_subject(row.id)])
        for row in found
        if _is_held(row, *held, chains)
    }


def _is_held(
    row: Row[Any], requests: Collection[UUID], calls: Collection[UUID], heads: Collection[str]
) -> bool:
    """Whether everything that an act on the request may write is locked."""
    of_call = row.status != "waiting" or row.call_id is None or row.call_id in calls
    return row.id in requests and of_call and request_subject(row.id) in heads


def _reviewed(row: Row[Any], head: Row[Any]) -> ReviewedRequest:
    by = person(row.place_team_id, row.place_user_id)
    place = StoredPlace(row.surface, by, row.place_channel, row.place_ts) if row.surface else None
    return row_as(
        ReviewedRequest,
        row,
        excluded=exclusions.from_json(row.excluded),
        digest=bytes(row.digest),
        votes=tuple(map(_vote, row.votes)),
        place=place,
        head=ChainHead(head.subject, head.seq, bytes(head.hash), row.at),
    )


def _vote(stored: Mapping[str, Any]) -> StoredVote:
    by = Person(stored["team"], stored["user"])
    return StoredVote(UUID(stored["id"]), by, Verdict(stored["verdict"]), stored["revision"])


# PostgreSQL keeps a plan only where it expects as much of it as of one made for these very values: of an array only
# where it cannot know its length, hence ARRAY(…). OFFSET 0 keeps it from joining whole tables.
_TAKE_REQUESTS = text("""
SELECT id FROM approval_request WHERE id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE
""")
_TRY_REQUESTS = text("""
SELECT id FROM approval_request WHERE id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[]))))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
_TRY_CALLS = text("""
SELECT id FROM tool_call WHERE id = ANY (ARRAY(
    SELECT call_id FROM approval_request
    WHERE id = ANY (ARRAY(SELECT unnest(CAST(:ids AS uuid[])))) AND status = 'waiting'))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")
_TAKE_HEADS = text("""
SELECT subject, seq, hash FROM audit_head WHERE subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[]))))
ORDER BY subject FOR NO KEY UPDATE
""")
_TRY_HEADS = text("""
SELECT subject, seq, hash FROM audit_head WHERE subject = ANY (ARRAY(SELECT unnest(CAST(:subjects AS text[]))))
ORDER BY subject FOR NO KEY UPDATE SKIP LOCKED
""")
_READ = text("""
SELECT each.* FROM unnest(ARRAY(SELECT unnest(CAST(:ids AS uuid[])))) AS asked (id)
JOIN LATERAL (
    SELECT r.id, r.call_id, r.agent, r.status::text AS status, r.revision, r.team_id, r.channel_id,
           r.approvals_required, r.expires_at, r.decided_at, r.approvers, r.excluded,
           r.policy -> 'reason_required' AS reason_required,
           coalesce((r.policy ->> 'allow_edit')::boolean, false) AS allow_edit,
           coalesce((r.policy ->> 'editor_may_approve')::boolean, false) AS editor_may_approve,
           v.digest, v.editor_team_id, v.editor_user_id,
           d.team_id AS decided_by_team_id, d.user_id AS decided_by_user_id,
           p.surface::text AS surface, p.channel_id AS place_channel, p.ts AS place_ts,
           p.team_id AS place_team_id, p.user_id AS place_user_id,
           coalesce(c.blocking, true) AS blocking, clock_timestamp() AS at,
           (SELECT coalesce(json_agg(json_build_object('id', id, 'team', team_id, 'user', user_id, 'verdict', verdict,
                                                       'revision', revision)), '[]'::json)
            FROM vote WHERE request_id = r.id AND superseded_by IS NULL) AS votes
    FROM approval_request AS r
    JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    LEFT JOIN tool_call AS c ON c.id = r.call_id
    LEFT JOIN card_place AS p ON p.request_id = r.id AND p.nonce = ANY (ARRAY(SELECT unnest(CAST(:nonces AS text[]))))
    LEFT JOIN decision AS d ON d.request_id = r.id
    WHERE r.id = asked.id OFFSET 0
) AS each ON true
""")
