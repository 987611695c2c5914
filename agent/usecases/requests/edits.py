"""A reviewer changes the arguments: a new revision, with a digest of its own, that is asked about anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.audit import AuditKind, request_subject
from agent.domain.changes import Difference, as_changes, differences, touches_hidden
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.policy import Rule, allows_edit
from agent.domain.request import Place, RequestStatus
from agent.store import audit, calls, exclusions, outbox, request_locks, requests
from agent.store.audit import AuditEntry, ChainHead
from agent.store.outbox import Destination
from agent.usecases.requests.eligibility import bind_place, editor, vote_refusal
from signoff.values import Action


@dataclass(frozen=True, slots=True)
class Edit:
    """What a reviewer made of a revision, judged (``agent.runtime.judgement.revise``).

    ``rule`` is the one that would catch the edited action now, ``None`` when policy would let it run; ``path`` says by
    which door it came, ``place`` is ``None`` only for doors without a card.
    """

    request_id: UUID
    revision: int
    editor: Standing
    action: Action
    facts: Mapping[str, Any] | None
    rule: Rule | None
    description: str
    path: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The revision that stands now. ``editor_may_approve``: the editor's approval of it would count."""

    revision: int
    editor_may_approve: bool
    changed: bool = True


async def edit(db: Database, edit: Edit) -> EditOutcome:
    """Put the edited action in the place of the one that was asked about. Votes on that one count no more.

    An edit that changes nothing leaves everything as it is (``changed`` is false), and the same edit delivered again
    is one. Raises ``Refused`` (recorded before), ``BudgetExceeded`` and ``OutcomeUnknown``.
    """
    async with db.decision_transaction() as tx:
        outcome = await _edit(tx, edit)
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def _edit(tx: Transaction, edit: Edit) -> EditOutcome | Refused:
    nonce = edit.place.nonce if edit.place else None
    subject = request_subject(edit.request_id)
    found = await request_locks.lock_for_vote(tx, edit.request_id, subject, nonce)
    if found is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    request, state = found
    if edit.place is not None and state.nonce is None:
        return Refused(Refusal.UNKNOWN_REQUEST)
    shown = await request_locks.revision(tx, request.id, request.revision)
    opened = Rule.from_snapshot(shown.policy)
    if _is_repeated(request, state, edit):
        return EditOutcome(request.revision, opened.editor_may_approve)
    before = Action.from_canonical(bytes(shown.action))
    made = differences(before.arguments, edit.action.arguments)
    refused = vote_refusal(request, state, edit.editor, edit.place, edit.revision)
    refused = refused or _refused(edit, opened, before, made)
    head = ChainHead(subject, state.seq, state.hash, state.now)
    if refused is not None:
        audit.append(tx, head, AuditEntry(AuditKind.EDIT_REFUSED, *_told(edit, refusal=refused.code.value)))
        return refused
    if not made:
        return EditOutcome(request.revision, opened.editor_may_approve, changed=False)
    bind_place(tx, state, edit.place)
    _write(tx, request, edit, before, made, head)
    return EditOutcome(request.revision + 1, opened.editor_may_approve)


def _is_repeated(request: Row[Any], state: Row[Any], edit: Edit) -> bool:
    """The very same edit, delivered again: it stands already."""
    return (
        request.status == RequestStatus.WAITING.value
        and request.revision == edit.revision + 1
        and editor(state) == edit.editor.person
        and bytes(state.digest) == edit.action.digest
    )


def _refused(edit: Edit, opened: Rule, before: Action, made: list[Difference]) -> Refused | None:
    if not opened.allow_edit:
        return Refused(Refusal.EDIT_NOT_ALLOWED)
    if touches_hidden(made, before.arguments, edit.action.arguments, opened.redact):
        return Refused(Refusal.REDACTED_EDIT)
    if edit.rule is not None and not allows_edit(opened, edit.rule):
        return Refused(Refusal.STRICTER_CHECKPOINT)
    return None


def _write(
    tx: Transaction, request: Row[Any], edit: Edit, before: Action, made: list[Difference], head: ChainHead
) -> None:
    changes = as_changes(made)
    revision = request.revision + 1
    requests.revise(
        tx,
        requests.Revision(
            request.id,
            revision,
            edit.action,
            edit.facts,
            edit.description,
            edit.editor.person,
            changes,
            eligibility.with_editor(
                exclusions.from_json(request.excluded),
                edit.editor.person,
                editor_may_approve=request.editor_may_approve,
            ),
        ),
    )
    actor, detail = _told(edit, digest=edit.action.digest.hex(), before=before.digest.hex())
    audit.append(tx, head, AuditEntry(AuditKind.REQUEST_EDITED, actor, detail))
    if request.call_id is not None:
        calls.supersede_action(tx, request.call_id)
    destination = Destination(request.team_id, request.channel_id)
    line = outbox.edited_line(destination, request.id, edit.editor.person, revision, changes)
    outbox.enqueue(tx, [outbox.card(destination, request.id), line])


def _told(edit: Edit, **facts: str) -> tuple[str, dict[str, Any]]:
    """Actor and detail of an audit event about this edit."""
    return audit.actor(edit.editor.person), {"revision": edit.revision, "path": edit.path, **facts}
