"""Actions that programs propose: let through, denied, covered by a grant, or asked about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from agent.domain.answers import AnswerForm
from agent.domain.api_keys import Principal, Scope
from agent.domain.audit import AuditKind
from agent.domain.errors import Refused
from agent.domain.facts import Facts, FactsSource
from agent.domain.grants import CallToCover
from agent.domain.groups import Batch, gathered_in
from agent.domain.judgement import Judgement, ToolTraits
from agent.domain.limits import Caller, LimitState, Use
from agent.domain.policy import Policy
from agent.domain.request import API, EXTERNAL, FactValues
from agent.domain.request_view import RequestView
from agent.domain.rules import Rule
from agent.domain.run import CallExecutor
from agent.runtime.judging.evaluation import (
    Proposal,
    after_rejections,
    asked_instead,
    judge,
    limited,
    uses_of,
    within_limits,
)
from agent.runtime.judging.grants import covers_of
from agent.runtime.services import Services
from agent.store import views
from agent.store.requests import NewRequest
from agent.usecases import grants, judgements, limits, requests
from agent.usecases.grants import ProgramCall
from agent.usecases.requests.opening import OpenOutcome
from signoff.errors import Conflict, SignoffError
from signoff.values import Action, Person

MAX_WAITING = 5_000
"""Open requests per key."""
MAX_WAITING_BYTES = 64 * 2**20
"""Total size of a key's open requests in the database."""

GRANTED = "reviewers have allowed similar calls in advance"
UNCONFIRMED = "a limit counts for each requester, and Slack does not confirm this one as a member"

Quote = Callable[[Rule, FactValues | None], Awaitable[str]]
"""A program's question, as people see it under this rule."""


class Denied(SignoffError):
    """Policy denies the action; the text says why."""


class TooManyWaiting(SignoffError):
    """The key has as many open requests as it may have."""


class SlackAway(SignoffError):
    """Nobody can be asked, because Slack was not reached yet."""


@dataclass(frozen=True, slots=True)
class ProgramQuestion:
    """What a program asks under its own name for it; ``content``: digest of all that must be repeated."""

    principal: Principal
    client_id: str
    content: bytes
    action: Action
    facts: Facts
    """The program's own."""
    agent: str
    requester: Person | None
    on_behalf: bool
    """The key names the requester."""
    quote: Quote | None
    """None: there is an action, which describes itself."""
    words: str | None
    rationale: str | None
    context: Mapping[str, Any]
    session: str | None
    answer_form: AnswerForm | None = None
    batch: Batch | None = None
    """What it is asked with."""

    @property
    def caller(self) -> Caller:
        names_agent = self.principal.agent is None
        return Caller(self.agent, self.requester, self.principal.name, names_agent=names_agent)

    @property
    def requester_asserted(self) -> str:
        if self.requester is None:
            return "none"
        return self.principal.name + (f" for {self.requester.user_id}" if self.on_behalf else "")


@dataclass(frozen=True, slots=True)
class LetThrough:
    """Nobody has to be asked; the evaluation is on record. ``facts``: those that it rests on."""

    because: str
    facts: Facts
    grant: UUID | None = None


def proposal_of_program(asker: ProgramQuestion | RequestView, action: Action, facts: Facts) -> Proposal:
    """Nothing is known of an external tool; a question without an action always asks."""
    traits = ToolTraits(action.tool, action.tool_version, requires_approval=action.tool == EXTERNAL)
    terms, form = partial(_narrowed, facts), asker.answer_form
    return Proposal(action, facts, traits, asker.agent, asker.requester, asker.caller, terms, form)


def _narrowed(facts: Facts, rule: Rule) -> Rule:
    """Leave out edits if the facts are the program's.

    They describe the original arguments, and only the program could supply those of an edit.
    """
    told = facts.source is FactsSource.PROGRAM and rule.allow_edit
    return rule.model_copy(update={"allow_edit": False}) if told else rule


async def ask(services: Services, question: ProgramQuestion) -> OpenOutcome | LetThrough:
    """Open a request, unless it exists or policy needs none.

    Raises Denied, TooManyWaiting, SlackAway, AgentPaused (nobody has to be asked), ``Refused`` (the requester is no
    member), OutdatedPolicy, Conflict and MalformedArguments.
    """
    principal = question.principal.name
    async with services.db.connection() as connection:
        found = await views.client_request(connection, principal, question.client_id)
        waiting = await views.waiting_of_key(connection, principal, MAX_WAITING)
    if found is not None:
        if found.content_digest != question.content:
            raise Conflict(f"request {question.client_id!r} exists with other content")
        return OpenOutcome(found.request_id, created=False)
    return await services.policies.judged(partial(_judge_and_open, services, question, waiting))


async def _judge_and_open(
    services: Services, question: ProgramQuestion, waiting: views.Waiting
) -> OpenOutcome | LetThrough:
    policy = services.policy  # one for the facts and what is made of them: another may be loaded meanwhile
    proposal = await _with_facts(services, policy, question)
    judgement, uses = judge(policy, proposal), uses_of(policy, proposal)
    if await _is_unconfirmed(services, question, judgement, uses):
        judgement = asked_instead(policy, proposal, judgement, UNCONFIRMED)
    asked = _asked(question, uses)
    judgement, states = await _count(services, question, proposal, asked, judgement)
    judgement = await after_rejections(services.db, proposal, judgement)
    if judgement.rule is None:
        return await _without_review(services, question, proposal, asked, judgement)
    if (grant := await _use_grant(services, asked, proposal, judgement, judgement.rule)) is not None:
        return LetThrough(GRANTED, proposal.facts, grant)
    if waiting.requests >= MAX_WAITING or waiting.size >= MAX_WAITING_BYTES:
        raise TooManyWaiting(
            f"{waiting.requests:,} requests of the key {question.principal.key} wait for people; no more are "
            "accepted until some have ended"
        )
    await services.check_member(question.requester)
    new = await _question(services, question, proposal, judgement, judgement.rule, states)
    return await requests.open(services.db, new)


async def _with_facts(services: Services, policy: Policy, question: ProgramQuestion) -> Proposal:
    """With the facts that Signoff looks up, where policy says so."""
    proposal = proposal_of_program(question, question.action, question.facts)
    lookup = policy.lookup(question.action.tool)
    if lookup is None:
        return proposal
    requester = question.requester.user_id if question.requester else None
    principal = question.principal.name
    facts = await services.look_up(lookup, question.action, question.agent, requester, principal)
    return proposal_of_program(question, question.action, facts)


def _asked(question: ProgramQuestion, uses: tuple[Use, ...]) -> ProgramCall:
    return ProgramCall(
        question.principal.name,
        question.client_id,
        question.content,
        question.principal.key_id,
        question.agent,
        uses,
        question.session,
        question.principal.may(Scope.SESSIONS),
    )


async def _is_unconfirmed(
    services: Services, question: ProgramQuestion, judgement: Judgement, uses: Sequence[Use]
) -> bool:
    """Whether a limit per requester would let this run for somebody whom the key names and Slack does not confirm."""
    named = question.on_behalf and any(use.limit.per == "requester" for use in uses)
    if not named or judgement.verdict != "run":
        return False
    try:
        await services.check_member(question.requester)
    except Refused:
        return True
    return False


async def _count(
    services: Services,
    question: ProgramQuestion,
    proposal: Proposal,
    asked: ProgramCall,
    judgement: Judgement,
) -> tuple[Judgement, tuple[LimitState, ...]]:
    """If the action may run, its use is counted and recorded on return."""
    if judgement.verdict != "run" or not asked.uses:
        return await within_limits(services, proposal, judgement, asked.uses, asked.limit_key)
    detail = _detail(asked, proposal)
    states = await limits.allow_use(
        services.db, question.principal, asked.limit_key, asked.uses, detail, judgement, agent=asked.agent
    )
    return limited(services.policy, proposal, judgement, states), states


async def _without_review(
    services: Services,
    question: ProgramQuestion,
    proposal: Proposal,
    asked: ProgramCall,
    judgement: Judgement,
) -> LetThrough:
    """Record the result with its facts, in the key's audit chain. Raises Denied."""
    denied = judgement.verdict != "run"
    if denied or not asked.uses:  # otherwise recorded with its uses
        kind = AuditKind.REVIEW_DENIED if denied else AuditKind.REVIEW_NOT_REQUIRED
        detail, begins = _detail(asked, proposal), None if denied else asked.agent
        await judgements.record(services.db, question.principal, kind, detail, judgement, agent=begins)
    if denied:
        raise Denied(judgement.told)
    return LetThrough(judgement.because, proposal.facts)


def _detail(asked: ProgramCall, proposal: Proposal) -> dict[str, object]:
    about = {"request": asked.client_id, "tool": proposal.action.tool, "digest": proposal.action.digest.hex()}
    return about | proposal.facts.on_record


async def _use_grant(
    services: Services, asked: ProgramCall, proposal: Proposal, judgement: Judgement, rule: Rule
) -> UUID | None:
    """The grant that this question uses, now or earlier; ``None``: ask people."""
    if services.policy.grants is None or not rule.allow_grants or judgement.rejected is not None:
        return None
    if (used := await grants.find_use(services.db, asked)) is not None:
        return used
    call = CallToCover(
        action=proposal.action,
        facts=proposal.facts,
        rule=rule,
        requester=proposal.requester,
        agent=proposal.agent,
        agent_version=EXTERNAL,
        principal=asked.principal,
        judgement=judgement,
    )
    for cover in await covers_of(services, call):
        if await grants.use_by_program(services.db, asked, cover, policy_epoch=judgement.epoch):
            return cover.grant_id
    return None


async def _question(
    services: Services,
    question: ProgramQuestion,
    proposal: Proposal,
    judgement: Judgement,
    rule: Rule,
    states: tuple[LimitState, ...],
) -> NewRequest:
    new = question_of_program(services, question, question.principal, proposal, judgement, rule, states)
    words, description = question.words, new.description
    if question.quote is not None and rule.description_template is None:
        words, description = None, await question.quote(rule, new.facts)
    rationale = "\n\n".join(filter(None, (words, question.rationale))) or None
    session, content = question.session, question.content
    gathered = gathered_in(question.batch, rule, question.answer_form, services.policy.defaults.group_from)
    return replace(
        new,
        description=description,
        rationale=rationale,
        session=session,
        content=content,
        gathered_in=gathered,
    )


def question_of_program(
    services: Services,
    asker: ProgramQuestion | RequestView,
    principal: Principal,
    proposal: Proposal,
    judgement: Judgement,
    rule: Rule,
    states: tuple[LimitState, ...],
) -> NewRequest:
    """With what the program said of itself and its action. Raises SlackAway."""
    try:
        destination = services.destination(rule.channel)
    except SignoffError as away:
        raise SlackAway(str(away)) from None
    return NewRequest(
        rule=rule,
        action=proposal.action,
        facts=proposal.facts.values,
        facts_source=proposal.facts.source,
        description=rule.describe(proposal.action, proposal.facts.values),
        rationale=asker.rationale,
        context=asker.context,
        agent=asker.agent,
        agent_version=EXTERNAL,
        requester=asker.requester,
        requester_asserted=asker.requester_asserted,
        destination=destination,
        principal=principal.name,
        client_id=asker.client_id,
        source=API,
        executor=CallExecutor.NONE if asker.answer_form else CallExecutor.PROGRAM,
        api_key_id=principal.key_id,
        limits=states,
        policy_epoch=judgement.epoch,
        judgement=judgement,
        rejected_before=judgement.rejected,
        only_session=principal.may(Scope.SESSIONS),
        answer_form=asker.answer_form,
    )
