"""What policy says of a proposal: checkpoints, limits, earlier rejections. In doubt people are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from agent.database.pools import Database
from agent.domain.answers import AnswerForm
from agent.domain.facts import Facts
from agent.domain.grants import GRANT
from agent.domain.judgement import Inputs, Judgement, ToolTraits
from agent.domain.limits import Caller, LimitState, Use
from agent.domain.policy import Policy
from agent.domain.rules import Rule
from agent.runtime.services import Services
from agent.store import views
from agent.usecases import limits
from signoff.values import Action, Person


def _unchanged(rule: Rule) -> Rule:
    return rule


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that a run or a program proposes, and what policy may know of it."""

    action: Action
    facts: Facts
    traits: ToolTraits
    agent: str
    requester: Person | None
    caller: Caller
    terms: Callable[[Rule], Rule] = _unchanged
    """The rule's terms for this action, after the tool's own demands."""
    answer_form: AnswerForm | None = None
    """What a question wants besides yes or no."""


def judge(policy: Policy, proposal: Proposal) -> Judgement:
    """The checkpoints alone."""
    requester = proposal.requester.user_id if proposal.requester else None
    facts = proposal.facts
    judgement = policy.judge(
        proposal.traits, proposal.action, facts.values, proposal.agent, requester, facts_failed=facts.failed
    )
    return _with_terms(judgement, proposal)


class DenialsNow:
    """What the policy last loaded denies: votes count even while the one in force cannot be loaded."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def names(self, tool: str) -> bool:
        return any(denial.names(tool) for denial in self._services.policies.last_loaded.denials)

    async def why(self, request_id: UUID, tool: str | None) -> str | None:
        """Why policy denies what people are asked about, with the facts that they see."""
        policy = self._services.policies.last_loaded
        named = self.names(tool) if tool is not None else bool(policy.denials)
        view = await self._services.db.read(views.request_view, request_id) if named else None
        if view is None or view.source == GRANT:  # each call under it is judged by itself
            return None
        traits = ToolTraits(view.action.tool, view.action.tool_version)
        requester = view.requester.user_id if view.requester else None
        found = policy.denial(Inputs(traits, view.action, view.facts, view.agent, requester))
        return found.denial.told if found and found.denial else None


def uses_of(policy: Policy, proposal: Proposal) -> tuple[Use, ...]:
    """Return what a proposal uses of each limit; facts that could not be looked up count as unknown."""
    known = None if proposal.facts.failed else proposal.facts.values
    return policy.uses(proposal.action, known, proposal.caller)


async def within_limits(
    services: Services, proposal: Proposal, judgement: Judgement, uses: Sequence[Use], key: UUID
) -> tuple[Judgement, tuple[LimitState, ...]]:
    """The claim has the last word. ``key``: of the proposal's own uses, which are left out."""
    if not uses or judgement.verdict == "deny":
        return judgement, ()
    states = await limits.states(services.db, key, uses)
    services.full_limits.update(states)
    return limited(services.policy, proposal, judgement, states), states


def limited(
    policy: Policy, proposal: Proposal, judgement: Judgement, states: Sequence[LimitState]
) -> Judgement:
    """Evaluate more strictly if the limits have no room."""
    traits, wants_answer = proposal.traits, proposal.answer_form is not None
    found = policy.within_limits(judgement, states, traits, proposal.action, wants_answer=wants_answer)
    return _with_terms(found, proposal)


def asked_instead(policy: Policy, proposal: Proposal, judgement: Judgement, because: str) -> Judgement:
    """Ask about what would run, as if a limit had no room."""
    found = policy.asked_instead(judgement, because, proposal.traits, proposal.action)
    return _with_terms(found, proposal)


async def after_rejections(db: Database, proposal: Proposal, judgement: Judgement) -> Judgement:
    """Refuse while an earlier rejection holds, or point to it, if policy asks people anyway."""
    if judgement.rule is None or (holds := judgement.rule.rejected_holds) is None:
        return judgement
    rejected = await db.read(views.lasting_rejection, proposal.agent, proposal.action.digest, holds)
    if rejected is None:
        return judgement
    if _shows_rejections(judgement):
        return replace(judgement, rejected=rejected.request_id)
    because = f"the same action was recently rejected, see request {rejected.request_id}"
    ruled = judgement.ruled or ("ask", judgement.rule.checkpoint_id)
    return replace(judgement, verdict="deny", rule=None, because=because, ruled=ruled)


async def with_rejection(db: Database, proposal: Proposal, judgement: Judgement) -> Judgement:
    """Point to an earlier rejection, if policy shows it: the action is asked again in any case."""
    return await after_rejections(db, proposal, judgement) if _shows_rejections(judgement) else judgement


def _shows_rejections(judgement: Judgement) -> bool:
    return judgement.rule is not None and judgement.rule.rejected_again == "show"


def _with_terms(judgement: Judgement, proposal: Proposal) -> Judgement:
    if judgement.rule is None:
        return judgement
    rule = proposal.terms(judgement.rule).for_answers(proposal.answer_form)
    return judgement if rule is judgement.rule else replace(judgement, rule=rule)
