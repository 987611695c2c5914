"""Claims of programs: the policy in force and present facts are applied to what people approved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from uuid import UUID

from agent.domain.api_keys import Principal
from agent.domain.facts import Facts, FactsSource
from agent.domain.judgement import Judgement
from agent.domain.policy import Policy
from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from agent.runtime.judging.evaluation import judge, uses_of, with_rejection
from agent.runtime.judging.programs import Denied, SlackAway, proposal_of_program
from agent.runtime.services import Services
from agent.usecases import limits
from agent.usecases.executions import changed_facts, external
from agent.usecases.executions.external import FACTS_CHANGED, ClaimRefused, ExternalClaim, TokenOf
from signoff.errors import SignoffError
from signoff.values import Action


class FactsAway(SignoffError):
    """The facts cannot be looked up now; the approval remains valid."""


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """The approval is void, and people are asked under this request."""

    request_id: UUID


async def claim(
    services: Services,
    view: RequestView,
    principal: Principal,
    token_of: TokenOf,
    *,
    digest: bytes | None,
    facts: Facts | None,
    lease_seconds: float,
) -> ExternalClaim | AskedAgain:
    """Claim the approved action once, or ask people again if facts or policy have changed. ``facts``: sent along.

    Raises ClaimRefused, Denied, FactsAway, SlackAway, NotFound and OutdatedPolicy.
    """
    claimed = partial(_claim, services, view, principal, token_of, digest, facts, lease_seconds)
    return await services.policies.judged(claimed)


async def _claim(
    services: Services,
    view: RequestView,
    principal: Principal,
    token_of: TokenOf,
    digest: bytes | None,
    sent: Facts | None,
    lease_seconds: float,
) -> ExternalClaim | AskedAgain:
    policy = services.policy  # one for the facts and what is made of them: another may be loaded meanwhile
    facts = await _present_facts(services, policy, view, sent)
    try:
        return await external.claim(
            services.db,
            view.id,
            principal,
            token_of,
            digest=digest,
            lease_seconds=lease_seconds,
            facts=facts,
            facts_are_read=policy.reads_facts(view.action.tool),
            policy_epoch=policy.epoch,
            judge=partial(_judge, policy, view),
        )
    except ClaimRefused as refused:
        if refused.kind != FACTS_CHANGED:
            raise
    shown = Facts(view.facts, source=view.facts_source)
    return AskedAgain(await _ask_again(services, policy, view, principal, facts or shown))


async def _present_facts(
    services: Services, policy: Policy, view: RequestView, sent: Facts | None
) -> Facts | None:
    """Looked up by Signoff if the policy in force says so, whatever it said before; else the program's."""
    lookup = policy.lookup(view.action.tool)
    if lookup is None and view.facts_source is FactsSource.SIGNOFF:
        return Facts()
    if lookup is None or view.status is not RequestStatus.APPROVED:
        return sent
    requester = view.requester.user_id if view.requester else None
    facts = await services.look_up(lookup, view.action, view.agent, requester)
    if facts.failed:
        raise FactsAway(
            "Its facts cannot be looked up now, so it does not begin. The approval remains valid; claim it again."
        )
    return facts


def _judge(policy: Policy, view: RequestView, action: Action, facts: Facts) -> Judgement:
    return judge(policy, proposal_of_program(view, action, facts))


async def _ask_again(
    services: Services, policy: Policy, view: RequestView, principal: Principal, facts: Facts
) -> UUID:
    proposal = proposal_of_program(view, view.action, facts)
    judgement = judge(policy, proposal)
    if judgement.verdict == "deny":
        raise Denied(judgement.because)
    judgement = await with_rejection(services.db, proposal, judgement)
    rule = judgement.rule
    try:
        destination = services.destination(rule.channel) if rule else None
    except SignoffError as away:
        raise SlackAway(str(away)) from None
    uses = uses_of(policy, proposal)
    states = await limits.states(services.db, view.id, uses) if uses else ()
    return await changed_facts.void_and_ask(
        services.db,
        view.id,
        principal,
        facts,
        rule=rule,
        destination=destination,
        limits=states,
        judgement=judgement,
    )
