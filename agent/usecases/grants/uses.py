"""Uses of grants, checked under the grant's lock and written with the call's beginning.

The caller has just evaluated the call (`CallToCover`) and looked up the granters. If any check fails nothing begins,
and people are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.audit import AuditKind, run_subject
from agent.domain.errors import DOUBTFUL
from agent.domain.grants import CallToCover, Grant, granters_refusal
from agent.domain.limits import Use
from agent.domain.pause import check_not_paused
from agent.domain.people import Exclusion, Involvement, Standing
from agent.domain.policy import check_epoch
from agent.domain.run import CallState
from agent.fault_points import point
from agent.metrics import GRANT_USES
from agent.store import (
    audit,
    call_locks,
    calls,
    exclusions,
    grants,
    judgements,
    limits,
    outbox,
    pause,
    request_locks,
)
from agent.store.audit import AuditEntry
from agent.store.call_locks import ReadyCall
from agent.store.exclusions import ProgramLineage
from agent.store.grants import EarlierUse, StoredGrant
from agent.store.limits import LimitRoom
from agent.usecases.calls import attempts
from agent.usecases.calls.claims import CallToClaim, begin_attempt
from agent.usecases.grants.endings import write_end
from signoff.errors import Conflict, SignoffError
from signoff.values import Person

log = structlog.get_logger(__name__)

LOST_REVIEWER = "somebody who gave it is no longer a reviewer"


@dataclass(frozen=True, slots=True)
class Cover:
    """A grant that seems to cover a call; ``standings`` of its granters."""

    grant_id: UUID
    call: CallToCover
    standings: Mapping[Person, Standing]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """``content``: digest of everything the program sent."""

    principal: str
    client_id: str
    content: bytes
    api_key_id: UUID
    agent: str
    uses: tuple[Use, ...] = ()
    session: str | None = None
    only_session: bool = False
    """The key is trusted to tell its sessions apart."""

    def lineage(self, tool: str) -> ProgramLineage:
        return ProgramLineage(
            self.principal, self.api_key_id, self.agent, tool, self.session, self.only_session
        )

    @property
    def limit_key(self) -> UUID:
        return limits.question_key(self.principal, self.client_id, self.content)

    @property
    def key(self) -> str:
        return f"{self.principal} {self.client_id}"


@dataclass(frozen=True, slots=True)
class _Reviewed:
    approvers: tuple[str, ...]
    excluded: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True)
class _Use:
    cover: Cover
    grant: StoredGrant
    allowed: Grant
    key: str
    content: bytes = b""


async def claim(db: Database, member: CallToClaim, cover: Cover) -> attempts.Claim | None:
    """Claim a call that nobody was asked about, as a use of the grant.

    Further attempts are the same use. ``None``: nothing was written; ask people. Raises ``NoRoom`` and
    ``OutdatedPolicy``. After ``OutcomeUnknown``, ask ``calls.find_claim``.
    """
    if member.run_id is None:
        return None
    async with db.transaction() as tx:
        tx.after_commit(partial(point, "after_claim"))
        locked = await call_locks.lock_ready(
            tx,
            [member.call_id],
            [member.run_id],
            (),
            member.terms.concurrency,
            member.unapproved_uses,
            wait=True,
        )
        found = locked.get(member.call_id)
        if found is None or not found.limits.has_room(member.call_id, member.unapproved_uses):
            return None
        grant, used = await grants.lock(tx, cover.grant_id, key := _key(member.call_id))
        if grant is None or not _may_begin(found, cover, used, outside=member.terms.claim_hash is not None):
            return None
        if await grants.contradicted(tx, member.run_id, cover.call.action.tool):
            return None
        _, involved = await exclusions.involved(tx, member.call_id)
        allowed = await _covering(tx, grant, cover, involved, used)
        if allowed is None:
            return None
        use = _Use(cover, grant, allowed, key)
        return await _begin(tx, member, member.run_id, found, use, again=used is not None)


async def has_used(db: Database, call_id: UUID) -> bool:
    """Return whether the call has already begun as a use of a grant, so that a retry is the same use."""
    return await db.read(grants.earlier_use, _key(call_id)) is not None


async def find_use(db: Database, asked: ProgramCall) -> UUID | None:
    """The grant that covered this request before. Raises ``Conflict`` for other content, and ``AgentPaused``."""
    used = await db.read(grants.earlier_use, asked.key)
    if used is None or not _is_repeated(asked, used):
        return None
    check_not_paused(await db.read(pause.active_pauses), asked.agent)
    return used.grant_id


async def use_by_program(db: Database, asked: ProgramCall, cover: Cover, *, policy_epoch: int = 0) -> bool:
    """A repeated request is the same use.

    Raises ``OutdatedPolicy``, ``Conflict`` for other content, and ``AgentPaused`` for a use that is repeated.
    """
    async with db.transaction() as tx:
        if await request_locks.lock_client_id(tx, asked.principal, asked.client_id, hold=True) is not None:
            return False
        pauses = await pause.active_pauses(tx)
        room = await limits.lock(tx, asked.limit_key, asked.uses) if asked.uses else LimitRoom()
        grant, used = await grants.lock(tx, cover.grant_id, asked.key)
        call = cover.call
        if used is not None and _is_repeated(asked, used):
            check_not_paused(pauses, call.agent)
            return True
        if not room.has_room(asked.limit_key, asked.uses):
            return False
        if grant is None or {each.agent for each in pauses} & {None, call.agent, *call.above}:
            return False
        if await grants.contradicted_program(tx, asked.principal, call.action.digest):
            return False
        at, involved = await exclusions.involved(tx, asked.lineage(call.action.tool))
        check_epoch(policy_epoch, at.policy_epoch)
        allowed = await _covering(tx, grant, cover, involved, None)
        if allowed is None:
            return False
        await audit.create_head(tx, asked.principal)
        heads = await audit.lock_heads(tx, [asked.principal, grant.subject])
        base = {"grant": str(grant.id), "request": asked.client_id, "tool": call.action.tool}
        detail = {**base, "digest": call.action.digest.hex()}
        entry = AuditEntry(AuditKind.GRANT_USED, asked.principal, detail)
        audit.append_all(tx, [(heads[asked.principal], entry), (heads[grant.subject], entry)])
        if call.judgement is not None:
            judgements.insert(tx, call.judgement, principal=asked.principal, grant_id=grant.id)
        _write_use(tx, _Use(cover, grant, allowed, asked.key, asked.content), heads[grant.subject].at)
        limits.add_settled(tx, asked.limit_key, room.uncounted(asked.limit_key, asked.uses))
    return True


def _key(call_id: UUID) -> str:
    return f"call:{call_id}"


def _is_repeated(asked: ProgramCall, used: EarlierUse) -> bool:
    """Raises ``Conflict`` for other content."""
    if bytes(used.content) != asked.content:
        raise Conflict(f"request {asked.client_id!r} exists with other content")
    return True


def _may_begin(found: ReadyCall, cover: Cover, used: EarlierUse | None, *, outside: bool) -> bool:
    """Whether the call is new, or began before under this grant.

    ``outside``: a program claims a call handed out earlier.
    """
    call = found.call
    if call.ask_no or call.repeats is not None or call.paused or call.unneeded:
        return False
    if call.state is CallState.NEW:
        return used is None
    if call.state is not CallState.READY or call.action != cover.call.action.canonical:
        return False
    if not call.attempts:
        return outside and used is None
    return not call.wanted_again and used is not None and used.grant_id == cover.grant_id


async def _covering(
    tx: Transaction,
    grant: StoredGrant,
    cover: Cover,
    involved: Sequence[Exclusion],
    used: EarlierUse | None,
) -> Grant | None:
    """The terms, if they cover the call now. Ends a grant whose granter is no longer a reviewer."""
    allowed = None if grant.ended else granted(grant)
    if allowed is None:
        why: str | None = "it has ended, or the stored grant is not the approved one"
    else:
        why = _objection(grant, allowed, cover, involved, used)
    if why is None:
        return allowed
    log.info("grant does not cover the call", action="grant.unused", grant=str(grant.id), because=why)
    if why == LOST_REVIEWER:
        head = await audit.lock_head(tx, grant.subject)
        write_end(tx, [(grant.id, grant.destination, head)], by=audit.SYSTEM, because=why)
    return None


def _objection(
    grant: StoredGrant,
    allowed: Grant,
    cover: Cover,
    involved: Sequence[Exclusion],
    used: EarlierUse | None,
) -> str | None:
    call, rule = cover.call, cover.call.rule
    uses, total = (grant.uses, grant.used_sum) if used is None else (0, Decimal(0))
    why = allowed.objection(call) or allowed.exhausted(grant.at, uses, total, allowed.amount(call))
    if why is not None:
        return why
    standings = [cover.standings[each] for each in grant.granters if each in cover.standings]
    if len(standings) < max(len(grant.granters), rule.approvals_required):
        return "it is not known who gave it"
    asker = [Exclusion(call.requester, Involvement.REQUESTER)] if call.requester else []
    excluded = eligibility.exclusions([*asker, *involved], rule)
    refused = granters_refusal(standings, _Reviewed(rule.approvers, excluded))
    if refused is None:
        return None
    lost = refused.refusal not in DOUBTFUL and (refused.refusal or refused.roles.isdisjoint(rule.approvers))
    return LOST_REVIEWER if lost else "somebody who gave it could not approve this call"


def granted(grant: StoredGrant) -> Grant | None:
    """Return the grant as it was approved, or None if the stored one was altered, erased or unreadable."""
    action = (
        attempts.approved_action(
            grant.action, grant.decided_digest, grant.recorded_digest, terms_stand=grant.terms_stand
        )
        if grant.action
        else None
    )
    try:
        return Grant.from_action(action) if action is not None else None
    except ValueError:
        return None


async def _begin(
    tx: Transaction,
    member: CallToClaim,
    run_id: UUID,
    found: ReadyCall,
    use: _Use,
    *,
    again: bool,
) -> attempts.Claim:
    grant, action, subject = use.grant, use.cover.call.action, run_subject(run_id)
    heads = await audit.lock_heads(tx, [subject, grant.subject])
    if found.call.state is CallState.NEW:
        calls.mark_ready(tx, member.call_id, action)
    ready = replace(found.call, state=CallState.READY, action=action.canonical)
    begun = await begin_attempt(tx, replace(found, call=ready, head=heads[subject]), member.terms)
    if isinstance(begun, SignoffError):
        raise begun
    if begun is None:
        raise Conflict(f"tool call {member.call_id} cannot begin")
    claimed, after = begun
    if not again:
        detail = {
            "grant": str(grant.id),
            "call": str(member.call_id),
            "run": str(run_id),
            "execution": str(claimed.execution_id),
            "digest": action.digest.hex(),
        }
        entry = AuditEntry(AuditKind.GRANT_USED, f"agent:{use.cover.call.agent}", detail)
        audit.append_all(tx, [(after, entry), (heads[grant.subject], entry)])
        if (judged := use.cover.call.judgement) is not None:
            judgements.insert(tx, judged, call_id=member.call_id, grant_id=grant.id)
        _write_use(tx, use, after.at)
    return claimed


def _write_use(tx: Transaction, use: _Use, at: datetime) -> None:
    call, grant = use.cover.call, use.grant
    grants.use(
        tx,
        grant.id,
        at,
        key=use.key,
        amount=use.allowed.amount(call),
        digest=call.action.digest,
        content=use.content,
    )
    text = call.rule.describe(call.action, call.facts.values)
    line = outbox.grant_used_line(
        grant.destination, grant.id, text=text, n=grant.uses + 1, of=use.allowed.max_uses
    )
    outbox.enqueue(tx, [line, outbox.redrawn_card(grant.destination, grant.id)])
    about = {"action": "grant.used", "grant": str(grant.id), "key": use.key}
    tx.after_commit(partial(log.info, "a grant was used", **about))
    tx.after_commit(GRANT_USES.inc)
