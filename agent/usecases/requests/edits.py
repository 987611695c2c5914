"""A reviewer's edit: a new revision with its own digest, evaluated and asked again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.audit import AuditKind
from agent.domain.changes import Difference, as_changes, differences, touches_hidden
from agent.domain.coverage import allows_edit
from agent.domain.errors import Refusal, Refused
from agent.domain.facts import FactsSource
from agent.domain.judgement import Judgement
from agent.domain.limits import Use
from agent.domain.people import Standing
from agent.domain.policy import check_epoch
from agent.domain.request import FactValues, Place, RequestStatus
from agent.domain.rules import Rule
from agent.store import audit, calls, judgements, limits, outbox, request_locks, requests, vote_locks
from agent.store.audit import AuditEntry
from agent.store.vote_locks import ReviewedRequest
from agent.usecases.requests import places
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class EditAttempt:
    """``place`` is ``None`` without a card."""

    request_id: UUID
    revision: int
    editor: Standing
    path: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """``rule`` is ``None`` if policy would let the edited action run."""

    request_id: UUID
    revision: int
    editor: Standing
    action: Action
    facts: FactValues | None
    rule: Rule | None
    path: str
    place: Place | None = None
    signature_digest: bytes | None = None
    uses: tuple[Use, ...] = ()
    facts_source: FactsSource | None = None
    policy_epoch: int = 0
    judgement: Judgement | None = None

    @property
    def attempt(self) -> EditAttempt:
        return EditAttempt(self.request_id, self.revision, self.editor, self.path, self.place)


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """``editor_may_approve``: the editor's own approval would count."""

    revision: int
    editor_may_approve: bool
    changed: bool = True


async def check_edit(db: Database, attempt: EditAttempt) -> None:
    """Refuse a hopeless edit before its facts are looked up. Raises what ``edit`` raises."""
    async with db.decision_transaction() as tx:
        refused = await _check(tx, attempt)
    if refused is not None:
        raise refused


async def edit(db: Database, edit: Edit) -> EditOutcome:
    """Earlier votes no longer count. Raises ``Refused`` (recorded), ``OutdatedPolicy`` and ``OutcomeUnknown``."""
    async with db.decision_transaction() as tx:
        outcome = await _edit(tx, edit)
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def _check(tx: Transaction, attempt: EditAttempt) -> Refused | None:
    request = await _lock(tx, attempt)
    if request is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    # A repeated delivery names the revision before the edit's own.
    again = request.editor == attempt.editor.person and request.revision == attempt.revision + 1
    refused = _refusal(request, replace(attempt, revision=request.revision) if again else attempt)
    if refused is not None:
        audit.append(tx, request.head, _refusal_entry(attempt, refused))
    return refused


async def _edit(tx: Transaction, edit: Edit) -> EditOutcome | Refused:
    request = await _lock(tx, edit.attempt, judged=True)
    if request is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    if _is_repeated(request, edit):
        return EditOutcome(request.revision, request.editor_may_approve)
    shown = await request_locks.revision(tx, request.id, request.revision)
    check_epoch(edit.policy_epoch, shown.policy_epoch)
    before = Action.from_canonical(shown.canonical)
    made = differences(before.arguments, edit.action.arguments)
    refused = _refusal(request, edit.attempt) or _content_refusal(edit, shown.rule, before, made)
    if refused is not None:
        audit.append(tx, request.head, _refusal_entry(edit.attempt, refused))
        return refused
    if not made:
        return EditOutcome(request.revision, request.editor_may_approve, changed=False)
    places.bind(tx, request.place, edit.place)
    _write(tx, request, edit, before, made, shown.rule)
    return EditOutcome(request.revision + 1, request.editor_may_approve)


async def _lock(tx: Transaction, attempt: EditAttempt, *, judged: bool = False) -> ReviewedRequest | None:
    nonce = attempt.place.nonce if attempt.place else None
    found = await vote_locks.lock(tx, {attempt.request_id: nonce}, wait=True, judged=judged)
    request = found.get(attempt.request_id)
    known = request is not None and (attempt.place is None or request.place is not None)
    return request if known else None


def _refusal(request: ReviewedRequest, attempt: EditAttempt) -> Refused | None:
    refused = places.refusal(
        request.place, attempt.place, attempt.editor.person, request
    ) or eligibility.edit_refusal(request, attempt.editor, attempt.revision, request.head.at)
    return refused or (None if request.terms_stand else Refused(Refusal.TERMS_ALTERED))


def _content_refusal(edit: Edit, opened: Rule, before: Action, made: list[Difference]) -> Refused | None:
    if touches_hidden(made, before.arguments, edit.action.arguments, opened.redact):
        return Refused(Refusal.REDACTED_EDIT)
    if edit.rule is not None and not allows_edit(opened, edit.rule):
        return Refused(Refusal.STRICTER_CHECKPOINT)
    return None


def _is_repeated(request: ReviewedRequest, edit: Edit) -> bool:
    return (
        request.status is RequestStatus.WAITING
        and request.revision == edit.revision + 1
        and request.editor == edit.editor.person
        and request.digest == edit.action.digest
    )


def _write(
    tx: Transaction,
    request: ReviewedRequest,
    edit: Edit,
    before: Action,
    made: list[Difference],
    rule: Rule,
) -> None:
    editor, changes, revision = edit.editor.person, as_changes(made), request.revision + 1
    excluded = eligibility.with_editor(
        request.excluded, editor, editor_may_approve=request.editor_may_approve
    )
    requests.revise(
        tx,
        requests.Revision(
            request.id,
            revision,
            edit.action,
            edit.facts,
            rule.describe(edit.action, edit.facts),  # not as the changed action's own rule would
            editor,
            changes,
            excluded,
            request.head.at,
            edit.signature_digest,
            edit.facts_source,
        ),
    )
    if edit.judgement is not None:
        judgements.insert(
            tx, edit.judgement, call_id=request.call_id, request_id=request.id, revision=revision
        )
    limits.reserve(tx, edit.uses, request.call_id)
    detail = {
        **_detail(edit.attempt),
        "digest": edit.action.digest.hex(),
        "before": before.digest.hex(),
        "terms": replace(request.terms, excluded=excluded).digest,
    }
    audit.append(tx, request.head, AuditEntry(AuditKind.REQUEST_EDITED, audit.actor(editor), detail))
    if request.run_id is not None:
        calls.supersede_action(tx, request.call_id, request.agent)
    line = outbox.edited_line(request.destination, request.id, editor, revision, changes, rule.money)
    outbox.enqueue(tx, [outbox.card(request.destination, request.id), line])


def _refusal_entry(attempt: EditAttempt, refused: Refused) -> AuditEntry:
    detail = {**_detail(attempt), "refusal": refused.code.value}
    return AuditEntry(AuditKind.EDIT_REFUSED, audit.actor(attempt.editor.person), detail)


def _detail(attempt: EditAttempt) -> dict[str, object]:
    return {"revision": attempt.revision, "path": attempt.path}
