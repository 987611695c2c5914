"""Whole requests, as cards, pages and votes need them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic_core import from_json
from sqlalchemy import Row, text

from agent.database.transaction import Connection, fetch, query
from agent.domain.answers import AnswerForm, in_order
from agent.domain.limits import LimitView
from agent.domain.pause import EVERYTHING
from agent.domain.request import ExecutionStatus, RequestStatus, StoredPlace, Verdict
from agent.domain.request_view import (
    Behalf,
    Change,
    DecisionView,
    EarlierRejection,
    ExecutionView,
    FollowUp,
    GrantView,
    RequestView,
    VoteView,
)
from agent.domain.rules import Rule
from agent.store import exclusions
from agent.store.rows import people, person, row_as
from agent.store.views import request_rows
from signoff.canonical import parse_canonical
from signoff.values import Action, Person

FEW = 32
"""Read with a kept plan."""


@dataclass(frozen=True, slots=True)
class VoteContext:
    """Which revision of a request is current, and who may see it: for a vote, or a revocation, that names it."""

    request_id: UUID
    revision: int
    approvers: tuple[str, ...]
    team_id: str
    channel_id: str
    principal: str
    requester: Person | None


async def vote_context(connection: Connection, request_id: UUID) -> VoteContext | None:
    """Return what is known before a vote that names this request, or None if there is no such request."""
    for row in await fetch(connection, _VOTE_CONTEXT, id=request_id):
        return row_as(VoteContext, row)
    return None


async def request_view(connection: Connection, request_id: UUID) -> RequestView | None:
    """Return a whole request with its votes, decision and attempt, or None if there is none."""
    found = await fetch(connection, request_rows.ONE, id=request_id)
    return _view(found[0]) if found else None


async def request_views(connection: Connection, request_ids: Sequence[UUID]) -> list[RequestView]:
    """Views in the order of the ids; unknown ids are left out."""
    ids = list(dict.fromkeys(request_ids))
    rows = await fetch(connection, request_rows.FEW if len(ids) <= FEW else request_rows.MANY, ids=ids)
    found = {row.id: _view(row) for row in rows}
    return [found[request_id] for request_id in request_ids if request_id in found]


async def request_at(
    connection: Connection, request_id: UUID, nonce: str
) -> tuple[RequestView, StoredPlace] | None:
    """The view and the place of this nonce; ``None``: either is unknown."""
    found = await query(connection, request_rows.ONE, _PLACE, id=request_id, nonce=nonce)
    if not all(found):
        return None
    ((row,), (place,)) = found
    by = person(place.team_id, place.user_id)
    stored = StoredPlace(place.surface, by, place.channel_id, place.ts, tuple(place.closed))
    return _view(row), stored


async def others_in_forms(
    connection: Connection, request_id: UUID, forms: Collection[UUID]
) -> dict[tuple[UUID, Person], int]:
    """Return on how many requests beside this one each person voted by each of these forms."""
    rows = await connection.execute(_OTHERS_IN_FORMS, {"id": request_id, "forms": list(forms)})
    return {(row.together, Person(row.team_id, row.user_id)): row.others for row in rows}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request that people rejected, with the reason they gave, if any."""

    request_id: UUID
    reason: str | None


async def lasting_rejection(
    connection: Connection, agent: str, digest: bytes, within: timedelta
) -> Rejection | None:
    """The agent's latest rejection of exactly this action, in any run or program."""
    parameters = {"agent": agent, "digest": digest, "seconds": within.total_seconds()}
    row = (await connection.execute(_LASTING_REJECTION, parameters)).one_or_none()
    return Rejection(row.id, row.reason) if row is not None else None


def _view(row: Row[Any]) -> RequestView:
    rule = Rule.from_snapshot(row.policy)
    erased = row.erased_at is not None
    action = Action(row.tool, row.tool_version, {}) if erased else Action.from_canonical(bytes(row.action))
    facts = _facts(row.facts)
    form = AnswerForm.stored(row.answer_form) if row.answer_form else None
    return row_as(
        RequestView,
        row,
        rule=rule,
        action=action,
        facts=facts,
        previous_facts=_facts(row.previous_facts),
        paused_agent=None if row.paused_scope == EVERYTHING else row.paused_scope,
        excluded=exclusions.from_json(row.excluded),
        votes=_votes(row.votes, form.order if form else ()),
        decision=_decision(row),
        execution=_execution(row),
        voided=row.voided_at is not None,
        outdated=row.voided_at is not None and row.voided_at - row.decided_at >= rule.execute_within,
        place_nonce=row.nonce or "",
        message_ts=row.ts,
        link=None if erased else rule.link(action, facts),
        changes=stored_changes(row.changes),
        grant=_grant(row, action),
        escalated=row.escalated_at is not None,
        rejected_before=_earlier_rejection(row.rejection),
        asked_again=FollowUp(row.again_id, row.again_channel, row.again_ts) if row.repeated else None,
        recorded=row.seq or 0,
        limits=tuple(map(LimitView.read, row.limits or ())),
        answer_form=form,
    )


def _earlier_rejection(found: dict[str, Any] | None) -> EarlierRejection | None:
    if found is None:
        return None
    return EarlierRejection(
        request_id=UUID(found["id"]),
        person=person(found["team"], found["user"]),
        at=datetime.fromisoformat(found["at"]),
        reason=found["reason"],
        channel_id=found["channel"],
        message_ts=found["ts"],
    )


def _grant(row: Row[Any], action: Action) -> GrantView | None:
    if row.uses is None:
        return None
    return row_as(GrantView, row, behalf=Behalf.read(action.arguments.get("requester")))


def stored_changes(rows: Sequence[dict[str, Any]] | None) -> tuple[Change, ...]:
    """Return the changes of an edit as its revision stores them; none if it was not edited."""
    return tuple(Change(each["path"], each["before"], each["after"]) for each in rows or ())


def _facts(encoded: bytes | None) -> dict[str, Any] | None:
    if encoded is None:
        return None
    facts: dict[str, Any] = parse_canonical(bytes(encoded))
    return facts


def _votes(rows: Sequence[dict[str, Any]], order: Sequence[str]) -> tuple[VoteView, ...]:
    return tuple(
        VoteView(
            person=Person(row["team"], row["user"]),
            verdict=Verdict(row["verdict"]),
            reason=row["reason"],
            at=datetime.fromisoformat(row["at"]),
            together=UUID(row["together"]) if row["together"] else None,
            others=row["others"],
            answer=in_order(from_json(row["answer"]), order)
            if row["answer"] and row["answer_erased_at"] is None
            else None,
            answer_digest=row["answer_digest"],
        )
        for row in rows
    )


def _decision(row: Row[Any]) -> DecisionView | None:
    if row.outcome is None:
        return None
    by = person(row.decided_team_id, row.decided_user_id)
    return DecisionView(
        RequestStatus(row.outcome), by, row.decided_reason, row.decided_at, people(row.approved_by)
    )


def _execution(row: Row[Any]) -> ExecutionView | None:
    if row.execution_id is None:
        return None
    status = ExecutionStatus(row.execution_status)
    return row_as(
        ExecutionView, row, id=row.execution_id, status=status, retry_voters=people(row.retry_voters)
    )


_VOTE_CONTEXT = text("""
SELECT id AS request_id, revision, approvers, team_id, channel_id, principal, requester_team_id, requester_user_id
FROM approval_request WHERE id = :id
""")
_OTHERS_IN_FORMS = text("""
SELECT together, team_id, user_id, count(DISTINCT request_id) AS others
FROM vote WHERE together = ANY (:forms) AND request_id <> :id GROUP BY 1, 2, 3
""")
_PLACE = text("""
SELECT surface::text AS surface, team_id, user_id, channel_id, ts, closed FROM card_place
WHERE nonce = :nonce AND request_id = :id
""")
_LASTING_REJECTION = text("""
SELECT r.id, d.reason FROM decision AS d JOIN approval_request AS r ON r.id = d.request_id
WHERE d.outcome = 'rejected' AND d.digest = :digest AND r.agent = :agent
  AND d.decided_at > clock_timestamp() - make_interval(secs => :seconds)
ORDER BY d.decided_at DESC LIMIT 1
""")
REJECTION = text("""
SELECT r.id, d.reason FROM approval_request AS r
JOIN request_revision AS v ON v.request_id = r.id AND v.digest = :digest
JOIN decision AS d ON d.request_id = r.id AND d.outcome = 'rejected'
WHERE r.run_id = :run ORDER BY r.id DESC LIMIT 1
""")
"""The latest rejection of exactly this action in this run, as proposed or as edited."""
