"""The only way in which a request ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from agent import tracing
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain.answers import AnswerValue, in_order
from agent.domain.audit import AuditKind
from agent.domain.call_answers import call_after
from agent.domain.request import RequestStatus
from agent.domain.run import CallState
from agent.domain.verdicts import BY_PEOPLE
from agent.metrics import DECISIONS
from agent.store import audit, decisions, outbound, outbox
from agent.store.audit import AuditEntry, ChainHead
from agent.store.decisions import StoredDecision
from agent.store.outbox import OutboxMessage
from agent.store.request_locks import LockedRequest, OpenRequest
from signoff.values import Person
from signoff.visible_text import says_nothing

log = structlog.get_logger(__name__)

MAX_WAKEUPS = 50
"""Ended calls whose runs wake at once. Polling finds the others."""

_KINDS = {
    **dict.fromkeys(BY_PEOPLE, AuditKind.REQUEST_DECIDED),
    RequestStatus.EXPIRED: AuditKind.REQUEST_EXPIRED,
    RequestStatus.CANCELLED: AuditKind.REQUEST_WITHDRAWN,
}


@dataclass(frozen=True, slots=True)
class RequestEnding:
    """``digest``: of the current revision."""

    request: LockedRequest | OpenRequest
    digest: bytes
    outcome: RequestStatus
    head: ChainHead
    by: Person | None = None
    reason: str | None = None
    principal: str | None = None
    """The key that ended it, if no person did."""
    rejudged: bool = False
    """Evaluate the call again, instead of refusing it."""
    claimed: bool = False
    """In the same transaction."""
    background: bool = True
    """The call may go on in the background, so its run gets a note."""
    run_channel: str | None = None
    """If unknown here, the delivery poller finds it."""
    webhooks: bool = True
    approved_by: tuple[Person, ...] = ()
    """If several approvals or answers counted, in the order of the votes."""
    answer: AnswerValue | None = None
    """What people answered."""
    answer_order: tuple[str, ...] = ()
    """Of the form's fields."""
    others: int = 0
    """Other requests that were sent in one form with it."""

    @property
    def actor(self) -> str:
        return self.principal if self.principal and not self.by else audit.actor(self.by)

    @property
    def explained(self) -> bool:
        """A reviewer's words go to the requester in the run's thread."""
        return self.outcome in BY_PEOPLE and not says_nothing(self.reason)


def end_requests(
    tx: Transaction,
    endings: Sequence[RequestEnding],
    earlier: Sequence[tuple[ChainHead, AuditEntry]] = (),
    later: Sequence[tuple[ChainHead, AuditEntry]] = (),
) -> None:
    """End requests, in the caller's transaction: decisions, calls, cards, audit entries and webhooks.

    ``earlier`` and ``later`` are audit entries that belong before and after those of the endings.
    """
    if not endings:
        return
    decided = [_decision(each) for each in endings]
    decisions.insert(tx, decided)
    to_explain = {each.request.id for each in endings if each.background or each.explained}
    # Lines of the same age keep this order: people see it first where they decided.
    outbox.enqueue(tx, [message for each in endings for message in _messages(each)])
    _continue_calls(tx, decided, to_explain)
    heads = audit.append_all(tx, [*earlier, *((each.head, _entry(each)) for each in endings), *later])
    tx.ended({each.request.id: heads[each.head.subject].seq for each in endings})
    outbound.enqueue_decided(tx, [each.request.id for each in endings if each.webhooks])
    tx.after_commit(partial(_note, [(each, heads[each.head.subject]) for each in endings]))


def _decision(ending: RequestEnding) -> StoredDecision:
    request = ending.request
    state, refused_as = call_after(ending.outcome)
    if ending.rejudged:
        state, refused_as = CallState.NEW, None
    elif ending.claimed:
        state = CallState.CLAIMED
    return StoredDecision(
        request_id=request.id,
        outcome=ending.outcome,
        revision=request.revision,
        digest=ending.digest,
        by=ending.by,
        reason=ending.reason,
        at=ending.head.at,
        call_id=request.call_id,
        run_id=request.run_id,
        agent=request.agent,
        call_state=state,
        run_channel=ending.run_channel,
        refused_as=refused_as,
        approved_by=ending.approved_by,
    )


def _continue_calls(tx: Transaction, decided: Sequence[StoredDecision], to_explain: Collection[UUID]) -> None:
    of_runs = [each for each in decided if each.run_id is not None]
    decisions.add_run_lines(
        tx, {each.request_id: _line_in_run(each) for each in of_runs if each.request_id in to_explain}
    )
    waiting = [each for each in of_runs if each.call_state is not CallState.CLAIMED]
    decisions.show_runs(tx, [each.call_id for each in waiting])
    if len(of_runs) <= MAX_WAKEUPS:
        tx.wake(*(Wakeup.channel(each.run_channel) for each in waiting if each.run_channel))
        tx.wake(
            *(
                Wakeup.call(
                    each.call_id,
                    each.agent,
                    first=each.by is not None,
                    last=each.outcome is RequestStatus.EXPIRED,
                    approved=_approved(each),
                )
                for each in waiting
            )
        )


def _approved(decision: StoredDecision) -> tuple[UUID, UUID] | None:
    is_ready = decision.call_state is CallState.READY and decision.run_id is not None
    return (decision.run_id, decision.request_id) if is_ready else None  # type: ignore[return-value]


def _line_in_run(decision: StoredDecision) -> dict[str, object]:
    by = decision.by
    return {
        "line": "decided",
        "outcome": decision.outcome.value,
        "team": by.team_id if by else None,
        "user": by.user_id if by else None,
        "reason": decision.reason,
        "at": decision.at,
        **named_approvers(decision.approved_by),
    }


def named_approvers(people: Sequence[Person]) -> dict[str, object]:
    """Return the approvers' user ids as a fact for a message's line; no fact if there are none."""
    return {"approved_by": [each.user_id for each in people]} if people else {}


def sent_together(others: int) -> dict[str, object]:
    """Return how many other requests were sent in one form as a fact for a message's line; no fact without others."""
    return {"together": others} if others else {}


def _entry(ending: RequestEnding) -> AuditEntry:
    detail: dict[str, object] = {
        "outcome": ending.outcome.value,
        "revision": ending.request.revision,
        "digest": ending.digest.hex(),
    }
    if ending.approved_by:
        detail["approved_by"] = [audit.actor(each) for each in ending.approved_by]
    if ending.answer is not None:
        detail["answer"] = ending.answer.digest.hex()
    return AuditEntry(_KINDS[ending.outcome], ending.actor, detail)


def _messages(ending: RequestEnding) -> tuple[OutboxMessage, OutboxMessage]:
    request, at = ending.request, ending.head.at.isoformat()
    line = outbox.request_line(
        request.destination,
        request.id,
        ending.outcome.word,
        ending.by,
        reason=ending.reason,
        at=at,
        **named_approvers(ending.approved_by),
        **({"answer": _in_order(ending)} if ending.answer else {}),
        **sent_together(ending.others),
    )
    return (
        outbox.card(request.destination, request.id, urgent=ending.outcome is not RequestStatus.EXPIRED),
        line if ending.outcome is RequestStatus.CANCELLED else outbox.telling(line),
    )


def _in_order(ending: RequestEnding) -> object:
    """The answer, a form's as a list of its fields: a message's body is JSON whose members have no order."""
    value = ending.answer and ending.answer.value
    ordered = in_order(value, ending.answer_order)
    return [{name: each} for name, each in ordered.items()] if isinstance(ordered, Mapping) else ordered


def _note(ended: Sequence[tuple[RequestEnding, ChainHead]]) -> None:
    """Log the chains' heads too: a chain cut or rewritten later no longer matches the log."""
    expired = [each for each in ended if each[0].outcome is RequestStatus.EXPIRED]
    if len(expired) > 1:  # a line each would take a seventh of the time of a flood
        log.info(
            "requests have expired",
            action="request.expired",
            request_ids=[str(ending.request.id) for ending, _ in expired],
            revisions=[ending.request.revision for ending, _ in expired],
            heads=[head.hash.hex() for _, head in expired],
            head_seqs=[head.seq for _, head in expired],
        )
    for ending, head in ended:
        if ending.outcome is not RequestStatus.EXPIRED or len(expired) == 1:
            _log_one(ending, head)
        DECISIONS.labels(ending.outcome.word).inc()
        tracing.note_end("request", ending.request.id)


def _log_one(ending: RequestEnding, head: ChainHead) -> None:
    log.info(
        "request closed",
        action=f"request.{ending.outcome.word}",
        request_id=str(ending.request.id),
        by=ending.actor,
        agent=ending.request.agent,
        tool=ending.request.tool,
        revision=ending.request.revision,
        head=head.hash.hex(),
        head_seq=head.seq,
    )
