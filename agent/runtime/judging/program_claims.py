"""Claims of programs: the policy in force and present facts are applied to what people approved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from agent import tracing
from agent.domain.api_keys import Principal
from agent.domain.coverage import WouldRun, uncovered
from agent.domain.errors import NotFound
from agent.domain.facts import Facts, FactsSource
from agent.domain.judgement import Judgement
from agent.domain.limits import Use
from agent.domain.policy import Policy
from agent.domain.request_view import RequestView
from agent.runtime.judging.evaluation import Proposal, judge, uses_of, with_rejection
from agent.runtime.judging.programs import Denied, proposal_of_program, question_of_program
from agent.runtime.services import Services
from agent.store import approvals, views
from agent.store.approvals import ProgramApproval
from agent.store.ids import new_id
from agent.usecases import limits, requests
from agent.usecases.calls import CallToClaim, Claim, ClaimTerms
from agent.usecases.calls.program_claims import (
    FACTS_CHANGED,
    ClaimRefused,
    ProgramClaim,
    TokenOf,
    claimable_action,
    find_open_claim,
    hash_of,
    refused,
)
from signoff.errors import Conflict, SignoffError


class FactsAway(SignoffError):
    """The facts cannot be looked up now; the approval remains valid."""


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """The approval is void, and people are asked under this request."""

    request_id: UUID


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What a program wants to claim, and how. ``facts``: sent along."""

    view: RequestView
    principal: Principal
    token_of: TokenOf
    digest: bytes | None
    facts: Facts | None
    lease_seconds: float


async def claim(
    services: Services,
    view: RequestView,
    principal: Principal,
    token_of: TokenOf,
    *,
    digest: bytes | None,
    facts: Facts | None,
    lease_seconds: float,
) -> ProgramClaim | AskedAgain:
    """Claim the approved action once, or ask people again if facts or policy have changed. ``facts``: sent along.

    An open attempt is returned again if ``token_of`` gives its token: the first answer was lost. ``digest``: of the
    action that the program expects. Raises ClaimRefused, Denied, FactsAway, SlackAway, NotFound and OutdatedPolicy.
    """
    wanted = _Attempt(view, principal, token_of, digest, facts, lease_seconds)
    with tracing.span_within("claim", view.id, view.id, {"request_id": str(view.id)}) as span:
        claimed = await services.policies.judged(lambda: _claim(services, wanted))
        if isinstance(claimed, ProgramClaim):
            span.set(execution_id=str(claimed.execution_id), attempt=claimed.attempt)
    return claimed


async def _claim(services: Services, wanted: _Attempt) -> ProgramClaim | AskedAgain:
    policy = services.policy  # one for the facts and what is made of them: another may be loaded meanwhile
    view, found = await _read(services, wanted)
    if found.attempts and found.settled_as is None:
        repeated = await find_open_claim(services.db, view.call_id, wanted.token_of)
        if repeated is not None:
            return _claimed(wanted, view, repeated, wanted.token_of(repeated.execution_id))
    if found.voided:
        return await _successor(services, view)
    action = claimable_action(found, wanted.digest)
    facts = await _present_facts(services, policy, view, wanted.facts)
    known = found.facts_shown if facts is None or facts.failed else facts
    proposal = proposal_of_program(view, action, known)
    judgement, uses = judge(policy, proposal), uses_of(policy, proposal)
    would = WouldRun(action, facts, judgement, facts_are_read=policy.reads_facts(action.tool))
    if missing := uncovered(found, action, would):
        refusal = refused(missing)
        if refusal.kind != FACTS_CHANGED:
            raise refusal
        return await _ask_again(services, wanted, view, found, proposal, judgement, uses, missing.because)
    execution_id = new_id()
    token = wanted.token_of(execution_id)
    terms = ClaimTerms(
        wanted.principal.name,
        idempotent=False,
        execution_id=execution_id,
        uses=uses,
        policy_epoch=policy.epoch,
        lease_seconds=wanted.lease_seconds,
        claim_hash=hash_of(token),
    )
    claimed = await services.joint_writes.claims.join(CallToClaim(view.call_id, None, view.id, terms))
    if claimed is None:
        return await _overtaken(services, wanted)
    return _claimed(wanted, view, claimed, token)


def _claimed(wanted: _Attempt, view: RequestView, claim: Claim, token: str) -> ProgramClaim:
    given = ProgramClaim.of(claim, token, wanted.lease_seconds)
    return replace(given, revision=view.revision, edited=view.editor is not None)


async def _read(services: Services, wanted: _Attempt) -> tuple[RequestView, ProgramApproval]:
    """Raises NotFound."""
    view = wanted.view
    found = await services.db.read(approvals.find, view.id)
    if found is None or view.principal != wanted.principal.name:
        raise NotFound("there is no such request")
    if found.status is not view.status:  # decided since, perhaps after an edit
        async with services.db.connection() as connection:
            view = await views.request_view(connection, view.id) or view
    return view, found


async def _overtaken(services: Services, wanted: _Attempt) -> AskedAgain:
    """Somebody was quicker since the approval was read. Raises ClaimRefused, unless people are asked again."""
    view, now = await _read(services, wanted)
    if now.voided:
        return await _successor(services, view)
    claimable_action(now, wanted.digest)
    raise ClaimRefused("claimed", "it cannot begin now: it was claimed or stopped meanwhile")


async def _successor(services: Services, view: RequestView) -> AskedAgain:
    again = await services.db.read(approvals.find_successor, view.id)
    if again is None:
        raise NotFound("there is no such request any more")
    return AskedAgain(again)


async def _present_facts(
    services: Services, policy: Policy, view: RequestView, sent: Facts | None
) -> Facts | None:
    """Looked up by Signoff if the policy in force says so, whatever it said before; else the program's."""
    lookup = policy.lookup(view.action.tool)
    if lookup is None:
        return Facts() if view.facts_source is FactsSource.SIGNOFF else sent
    requester = view.requester.user_id if view.requester else None
    facts = await services.look_up(lookup, view.action, view.agent, requester, view.principal)
    if facts.failed:
        raise FactsAway(
            "Its facts cannot be looked up now, so it does not begin. The approval remains valid; claim it again."
        )
    return facts


async def _ask_again(
    services: Services,
    wanted: _Attempt,
    view: RequestView,
    found: ProgramApproval,
    proposal: Proposal,
    judgement: Judgement,
    uses: tuple[Use, ...],
    because: str,
) -> AskedAgain:
    if judgement.verdict == "deny":
        raise Denied(judgement.told)
    judgement = await with_rejection(services.db, proposal, judgement)
    states = await limits.states(services.db, view.call_id, uses) if uses else ()
    rule = judgement.rule or view.rule  # people are asked even if policy would now let the action run
    own_words = view.is_question and rule.description_template is None
    new = replace(
        question_of_program(services, view, wanted.principal, proposal, judgement, rule, states),
        description=view.description if own_words else rule.describe(proposal.action, proposal.facts.values),
        call_id=view.call_id,
        session=found.session,
    )
    try:
        opened = await requests.void_and_ask(services.db, view.call_id, view.id, new, because)
    except Conflict:
        return await _overtaken(services, wanted)
    return AskedAgain(opened.request_id)
