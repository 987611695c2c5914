"""A reviewer who approves a call proposes a grant; it needs as many approvals as the call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from agent.database.pools import Database
from agent.domain.audit import request_subject
from agent.domain.errors import GrantRefused, Refusal, Refused
from agent.domain.facts import Facts
from agent.domain.field_constraints import Constraint, constraint_as_json
from agent.domain.grants import (
    GRANT,
    MAX_LIVE,
    CallToCover,
    Grant,
    freeing_problem,
    limits_problem,
    rule_of_grant,
)
from agent.domain.policy import outdated
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.domain.rules import GrantLimits, Rule
from agent.domain.run import CallExecutor
from agent.store import audit, exclusions, grants, request_locks, views
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.store.requests import NewRequest
from agent.usecases.requests.opening import OpenOutcome, write_request
from signoff.canonical import canonical_bytes
from signoff.description import bounded
from signoff.formats import Money
from signoff.values import Person

MAX_DESCRIPTION = 1000


@dataclass(frozen=True, slots=True)
class GrantProposal:
    """Has a constraint for every argument and fact of the approved call."""

    origin: UUID
    by: Person
    arguments: Mapping[str, Constraint]
    facts: Mapping[str, Constraint] | None
    anyone: bool
    lasts: timedelta
    max_uses: int
    sum_of: str | None = None
    max_sum: Decimal | None = None

    def digest(self) -> bytes:
        hashed: dict[str, object] = {
            "arguments": {name: constraint_as_json(each) for name, each in self.arguments.items()},
            "facts": {name: constraint_as_json(each) for name, each in (self.facts or {}).items()},
            "anyone": self.anyone,
            "seconds": self.lasts.total_seconds(),
            "uses": self.max_uses,
            "sum": [self.sum_of, None if self.max_sum is None else str(self.max_sum)],
        }
        return hashlib.sha256(canonical_bytes(hashed)).digest()


async def propose(
    db: Database,
    proposal: GrantProposal,
    limits: GrantLimits | None,
    choices: Mapping[str, Sequence[object]],
    destination: Destination,
    *,
    policy_epoch: int = 0,
) -> OpenOutcome:
    """Propose a grant to those who may approve the call. Idempotent.

    ``limits``: of the policy ``policy_epoch``, which must still be in force. ``choices``: allowed values, by
    argument. The proposer's vote is cast afterwards. Raises ``GrantRefused``, and ``Refused`` for an unknown request.
    """
    async with db.transaction() as tx:
        client_id, content = f"{proposal.origin}:{proposal.by}", proposal.digest()
        existing = await request_locks.lock_client_id(tx, GRANT, client_id, hold=True)
        if existing is not None:
            if existing[1] != content:
                raise GrantRefused(
                    "You have already allowed similar calls from this card, with other values."
                )
            return OpenOutcome(existing[0], created=False)
        origin = await request_locks.lock(tx, proposal.origin)
        view = await views.request_view(tx, proposal.origin) if origin else None
        if view is None:
            raise Refused(Refusal.UNKNOWN_REQUEST)
        rule = (await request_locks.revision(tx, view.id, view.revision)).rule
        signature = await grants.signature_of(tx, view.id)
        call = _call(view, rule, signature)
        at, _ = await exclusions.involved(tx, None)
        if outdated(policy_epoch, at.policy_epoch) is not None:
            raise GrantRefused("The policy has just changed. Please try again.")
        grant = Grant(
            kind=call.kind,
            arguments=proposal.arguments,
            facts=proposal.facts,
            anyone=proposal.anyone,
            requester=None if proposal.anyone else view.requester,
            until=at.now + proposal.lasts,
            max_uses=proposal.max_uses,
            sum_of=proposal.sum_of,
            max_sum=proposal.max_sum,
            like=str(view.id),
        )
        problem = _problem(view, call, grant, proposal, limits, choices)
        if problem is None and await grants.lock_count(tx, view.agent, view.action.tool) >= MAX_LIVE:
            problem = f"There are {MAX_LIVE} live grants of this agent for this tool; revoke one first."
        if problem is not None:
            raise GrantRefused(problem)
        grant_id = new_id()
        new = NewRequest(
            rule=rule_of_grant(rule),
            action=grant.as_action(),
            facts=None,
            description=bounded(grant.describe(Money.declared(rule.money)), MAX_DESCRIPTION),
            rationale=None,
            context={},
            agent=view.agent,
            agent_version=view.agent_version,
            requester=None,
            requester_asserted="none",
            destination=destination,
            principal=GRANT,
            client_id=client_id,
            source=GRANT,
            executor=CallExecutor.NONE,
            content=content,
            policy_epoch=policy_epoch,
        )
        head = audit.new_head(request_subject(grant_id), at.now)
        write_request(tx, grant_id, new, 1, head, view.excluded)
        grants.insert(tx, grant_id, grant, head.at)
    return OpenOutcome(grant_id, created=True)


def _call(view: RequestView, rule: Rule, signature: bytes | None) -> CallToCover:
    return CallToCover(
        action=view.action,
        facts=Facts(view.facts, source=view.facts_source),
        rule=rule,
        requester=view.requester,
        agent=view.agent,
        agent_version=view.agent_version,
        above=view.above,
        signature=signature,
        principal=view.principal,
    )


def _problem(
    view: RequestView,
    call: CallToCover,
    grant: Grant,
    proposal: GrantProposal,
    limits: GrantLimits | None,
    choices: Mapping[str, Sequence[object]],
) -> str | None:
    approved = any(vote.person == proposal.by and vote.verdict is Verdict.APPROVE for vote in view.votes)
    if view.status not in (RequestStatus.WAITING, RequestStatus.APPROVED) or view.voided or not approved:
        return "Only a reviewer whose approval of this request counts can allow similar calls."
    if limits is None or (why := call.uncoverable) is not None:
        return f"No grant can be given here: {why if limits else 'the policy allows none'}."
    if view.revision != 1 or view.editor is not None:
        return "This request was edited, so similar calls cannot be allowed."
    problem = limits_problem(limits, proposal.lasts, proposal.max_uses, proposal.sum_of, proposal.max_sum)
    for root, constraints, values in (
        ("args", proposal.arguments, view.action.arguments),
        ("facts", proposal.facts or {}, view.facts or {}),
    ):
        for name, constraint in constraints.items():
            offered = choices.get(name, ()) if root == "args" else ()
            problem = problem or freeing_problem(call.rule, root, name, values.get(name), constraint, offered)
    mismatch = grant.objection(call)
    return problem or (f"The approved call itself would not be covered: {mismatch}." if mismatch else None)
