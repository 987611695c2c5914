"""A request is opened: the question, its terms, its card and its audit event."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.database.transaction import Connection, Transaction
from agent.database.wakeups import Wakeup
from agent.domain import eligibility
from agent.domain.audit import AuditKind, request_subject
from agent.domain.consent_terms import ConsentTerms
from agent.domain.errors import NotFound
from agent.domain.facts import Facts
from agent.domain.people import Exclusion, Involvement
from agent.domain.policy import check_epoch
from agent.domain.run import CallState
from agent.fault_points import point
from agent.store import (
    ancestors,
    audit,
    call_locks,
    calls,
    exclusions,
    judgements,
    limits,
    outbound,
    outbox,
    request_locks,
    requests,
    runs,
)
from agent.store.audit import AuditEntry, ChainHead
from agent.store.call_locks import NewCall
from agent.store.ids import new_id
from agent.store.requests import NewRequest
from signoff.canonical import canonical_bytes
from signoff.errors import Conflict

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenOutcome:
    """``created`` is false if the request existed."""

    request_id: UUID
    created: bool


async def open(db: Database, new: NewRequest) -> OpenOutcome:  # noqa: A001 - the word of the trade
    """Ask people, once.

    Raises ``Conflict`` (other content under its id, or an ended run), ``NotFound`` (no call) and ``OutdatedPolicy``.
    """
    async with db.transaction() as tx:
        ask_no = 1
        if new.run_id is not None and new.call_id is not None:
            call = await call_locks.lock_new(tx, new.call_id)
            if call is None:
                raise NotFound(f"no tool call {new.call_id}")
            if call.state is not CallState.NEW:
                return await _existing(tx, new)
            if call.unneeded:
                raise Conflict(f"the run of tool call {new.call_id} has ended")
            ask_no = call.ask_no + 1
            _park(tx, call, new)
            if call.destination is not None:
                outbox.enqueue(tx, ancestors.ancestor_roots(call.destination, call.ancestor_ids))
        elif (existing := await _find(tx, new)) is not None:
            return existing
        request_id = new_id()
        at, involved = await exclusions.involved(tx, new.lineage)
        check_epoch(new.policy_epoch, at.policy_epoch)
        head = audit.new_head(request_subject(request_id), at.now)
        write_request(tx, request_id, new, ask_no, head, involved)
        point("before_request_commits")
    point("after_request_commits")
    return OpenOutcome(request_id, created=True)


def write_request(
    tx: Transaction,
    request_id: UUID,
    new: NewRequest,
    ask_no: int,
    head: ChainHead,
    involved: Sequence[Exclusion],
) -> None:
    """Write a new request with its terms, audit entry, card and notices, in the caller's transaction."""
    call_id, form = new.call_id or request_id, new.answer_form
    tx.after_commit(
        partial(
            log.info,
            "people are asked",
            action="request.opened",
            request_id=str(request_id),
            call_id=str(call_id),
            agent=new.agent,
            tool=new.action.tool,
            checkpoint=new.rule.checkpoint_id,
        )
    )
    terms = ConsentTerms(
        approvers=_deciders(new),
        requester=new.requester,
        excluded=_excluded(new, involved),
        approvals_required=form.answers_required if form else new.rule.approvals_required,
        expires_at=head.at + new.rule.timeout,
    )
    content = content_digest(new) if new.call_id is None else None  # otherwise the call has it
    requests.insert(tx, request_id, new, content, ask_no, terms, head.at)
    if new.judgement is not None:
        judgements.insert(tx, new.judgement, call_id=call_id, request_id=request_id)
    limits.reserve(tx, [state.use for state in new.limits], call_id)
    detail = {
        "digest": new.action.digest.hex(),
        "checkpoint": new.rule.checkpoint_id,
        "risk": new.rule.risk.value,
        "ask_no": ask_no,
        "call": str(call_id),
        "executor": new.executor.value,
        "terms": terms.digest,
        **Facts(new.facts, source=new.facts_source).on_record,
        **({"answer_form": form.digest} if form else {}),
    }
    actor = f"agent:{new.agent}" if new.run_id else new.principal
    audit.append(tx, head, AuditEntry(AuditKind.REQUEST_OPENED, actor, detail))
    card = outbox.card(new.destination, request_id, urgent=False)
    outbox.enqueue(tx, [outbox.gathering(new.destination, new.gathered_in) if new.gathered_in else card])
    outbound.enqueue_opened(tx, request_id, new.rule.email)
    if new.has_pending_hook:
        tx.wake(Wakeup.call(call_id, new.agent))


def _deciders(new: NewRequest) -> tuple[str, ...]:
    """Who may answer, or the checkpoint's reviewers."""
    if new.answer_form is None:
        return new.rule.approvers
    return new.answer_form.deciders(new.rule.approvers, new.requester)


def _excluded(new: NewRequest, involved: Sequence[Exclusion]) -> tuple[Exclusion, ...]:
    """An answer authorises nothing, so nobody is excluded from giving it."""
    if new.answer_form is not None:
        return ()
    asker = [Exclusion(new.requester, Involvement.REQUESTER)] if new.requester else []
    return eligibility.exclusions([*asker, *involved], new.rule)


def content_digest(new: NewRequest) -> bytes:
    """SHA-256 of what a repeated opening must match."""
    if new.content is not None:
        return new.content
    content = {
        "action": new.action.digest.hex(),
        "agent": new.agent,
        "description": new.description,
        "requester": str(new.requester) if new.requester else None,
    }
    return hashlib.sha256(canonical_bytes(content)).digest()


def _park(tx: Transaction, call: NewCall, new: NewRequest) -> None:
    released = call.blocking and new.background
    calls.mark_asked(tx, new, blocking=call.blocking and not new.background)
    if released:
        runs.release_call(tx, call.run_id, new.agent, last=call.awaiting_calls <= 1)
    elif call.blocking:
        runs.park(tx, call.run_id)
    if call.destination is not None:
        outbox.enqueue(
            tx,
            [
                outbox.run_line(
                    call.destination,
                    call.run_id,
                    "pending",
                    text=new.description,
                    channel=new.destination.channel_id,
                    call=str(new.call_id),
                ),
                outbox.run_root(call.destination, call.run_id),
            ],
        )


async def _existing(connection: Connection, new: NewRequest) -> OpenOutcome:
    found = await request_locks.find_by_call(connection, new.call_id) if new.call_id else None
    if found is None:
        raise Conflict(f"tool call {new.call_id} has been judged otherwise already")
    request_id, digest = found
    if digest != new.action.digest:
        raise Conflict(f"tool call {new.call_id} was asked about with other arguments")
    return OpenOutcome(request_id, created=False)


async def _find(connection: Connection, new: NewRequest) -> OpenOutcome | None:
    found = await request_locks.lock_client_id(connection, new.principal, new.client_id, hold=True)
    if found is None:
        return None
    request_id, digest = found
    if digest != content_digest(new):
        raise Conflict(f"request {new.client_id!r} exists with other content")
    return OpenOutcome(request_id, created=False)
