"""Writes about requests: a new question, a vote, and the one way in which a request ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from agent import jobs
from agent.domain.action import Action, canonical_bytes
from agent.domain.audit import AuditKind
from agent.domain.people import Person
from agent.domain.policy import Rule, snapshot_digest
from agent.domain.request import RequestStatus, Verdict
from agent.store import chain, outbox
from agent.store.batch import Batch
from agent.store.chain import ChainHead, Entry
from agent.store.ids import new_id, new_nonce
from agent.store.outbox import Outlet


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A question to be put to people, complete.

    ``principal`` and ``client_id`` name it for whoever opens it (a call's request: ``"run"`` and call id with
    count). ``pending_text`` is what the model is told at once when the call may go on in the background.
    """

    rule: Rule
    action: Action
    facts: Mapping[str, Any] | None
    description: str
    rationale: str | None
    context: Mapping[str, Any]
    agent: str
    agent_version: str
    requester: Person | None
    requester_asserted: str
    outlet: Outlet
    principal: str = "run"
    client_id: str = ""
    source: str = "run"
    run_id: UUID | None = None
    call_id: UUID | None = None
    background: bool = False
    has_pending_hook: bool = False


def insert(batch: Batch, request_id: UUID, new: NewRequest, content_digest: bytes, ask_no: int) -> None:
    """The request, its first revision and the place of its card."""
    snapshot = new.rule.snapshot()
    batch.add(
        _INSERT_REQUEST,
        id=request_id,
        principal=new.principal,
        client_id=new.client_id,
        content_digest=content_digest,
        source=new.source,
        run_id=new.run_id,
        call_id=new.call_id,
        ask_no=ask_no,
        agent=new.agent,
        agent_version=new.agent_version,
        requester_team=new.requester.team_id if new.requester else None,
        requester_user=new.requester.user_id if new.requester else None,
        asserted=new.requester_asserted,
        checkpoint=new.rule.checkpoint_id,
        policy=Jsonb(snapshot),
        policy_digest=snapshot_digest(snapshot),
        approvers=Jsonb(snapshot["approvers"]),
        risk=new.rule.risk.value,
        approvals=new.rule.approvals_required,
        team=new.outlet.team_id,
        channel=new.outlet.channel_id,
        seconds=new.rule.timeout.total_seconds(),
        remind_at=new.rule.remind_at[0] if new.rule.remind_at else None,
    )
    batch.add(
        _INSERT_REVISION,
        id=request_id,
        tool=new.action.tool,
        version=new.action.tool_version,
        action=new.action.canonical,
        digest=new.action.digest,
        arguments=Jsonb(dict(new.action.arguments)),
        facts=None if new.facts is None else canonical_bytes(dict(new.facts)),
        author=f"agent:{new.agent}",
        description=new.description,
        rationale=new.rationale,
        context=Jsonb(dict(new.context)),
    )
    batch.add(
        _INSERT_PLACE,
        nonce=new_nonce(),
        id=request_id,
        team=new.outlet.team_id,
        channel=new.outlet.channel_id,
    )


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote to be recorded; ``supersedes`` is the same person's live vote, if any."""

    request_id: UUID
    revision: int
    person: Person
    verdict: Verdict
    reason: str | None
    path: str
    supersedes: UUID | None


def cast_vote(batch: Batch, vote: Vote) -> None:
    """Append the vote; an earlier one of the same person no longer counts."""
    vote_id = new_id()
    if vote.supersedes:
        batch.add(_SUPERSEDE, old=vote.supersedes, new=vote_id)
    batch.add(
        _INSERT_VOTE,
        id=vote_id,
        request=vote.request_id,
        revision=vote.revision,
        team=vote.person.team_id,
        user=vote.person.user_id,
        verdict=vote.verdict.value,
        reason=vote.reason,
        path=vote.path,
    )


def bind_place(batch: Batch, nonce: str, ts: str) -> None:
    """Which message a card turned out to be, while its ``ts`` was not saved."""
    batch.add(_BIND_PLACE, nonce=nonce, ts=ts)


def void(batch: Batch, request_id: UUID) -> None:
    """Approved, but what was shown has changed before it ran."""
    batch.add(_VOID, id=request_id)


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
    batch.hint(*(jobs.execute_call(e.call_id) for e in moved if e.call_id))


def _ending_entry(ending: Ending) -> Entry:
    detail = {
        "outcome": ending.outcome.value,
        "revision": ending.revision,
        "digest": ending.digest.hex(),
    }
    return Entry(_ENDING_KINDS[ending.outcome], chain.actor(ending.by), detail)


_INSERT_REQUEST = """
INSERT INTO approval_request (
    id, principal, client_id, content_digest, source, run_id, call_id, ask_no, agent, agent_version,
    requester_team_id, requester_user_id, requester_asserted, checkpoint_id, policy, policy_digest,
    approvers, risk, approvals_required, team_id, channel_id, created_at, expires_at, remind_next)
SELECT %(id)s, %(principal)s, %(client_id)s, %(content_digest)s, %(source)s, %(run_id)s, %(call_id)s, %(ask_no)s,
       %(agent)s, %(agent_version)s, %(requester_team)s, %(requester_user)s, %(asserted)s, %(checkpoint)s,
       %(policy)s, %(policy_digest)s, %(approvers)s, %(risk)s, %(approvals)s, %(team)s, %(channel)s,
       clock.now, clock.now + make_interval(secs => %(seconds)s),
       clock.now + make_interval(secs => %(seconds)s * %(remind_at)s::float)
FROM (SELECT clock_timestamp() AS now) AS clock
"""
_INSERT_REVISION = """
INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, arguments, facts, author,
                              description, rationale, context)
VALUES (%(id)s, 1, %(tool)s, %(version)s, %(action)s, %(digest)s, %(arguments)s, %(facts)s, %(author)s,
        %(description)s, %(rationale)s, %(context)s)
"""
_INSERT_PLACE = """
INSERT INTO card_place (nonce, request_id, surface, team_id, channel_id)
VALUES (%(nonce)s, %(id)s, 'channel', %(team)s, %(channel)s)
"""
_BIND_PLACE = "UPDATE card_place SET ts = %(ts)s WHERE nonce = %(nonce)s AND ts IS NULL"
_VOID = "UPDATE approval_request SET voided_at = clock_timestamp() WHERE id = %(id)s"
_SUPERSEDE = "UPDATE vote SET superseded_by = %(new)s WHERE id = %(old)s AND superseded_by IS NULL"
_INSERT_VOTE = """
INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, reason, path)
VALUES (%(id)s, %(request)s, %(revision)s, %(team)s, %(user)s, %(verdict)s, %(reason)s, %(path)s)
"""
_INSERT_DECISIONS = """
INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id, reason, decided_at)
SELECT * FROM unnest(%(ids)s::uuid[], %(outcomes)s::request_status[], %(revisions)s::int[], %(digests)s::bytea[],
                     %(teams)s::text[], %(users)s::text[], %(reasons)s::text[], %(ats)s::timestamptz[])
"""
_END_REQUESTS = """
UPDATE approval_request AS r SET status = e.outcome, decided_at = e.at
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
