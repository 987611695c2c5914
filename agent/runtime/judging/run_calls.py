"""Calls that runs propose: their arguments and facts, and the question about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

import structlog
from pydantic_core import to_jsonable_python

from agent.domain.coverage import WouldRun
from agent.domain.facts import Facts
from agent.domain.groups import Batch, gathered_in
from agent.domain.judgement import Judgement
from agent.domain.limits import Caller, LimitState
from agent.domain.rules import Rule
from agent.runtime import stored_text, transcript
from agent.runtime.agents import Agent
from agent.runtime.judging.evaluation import Proposal
from agent.runtime.services import Services
from agent.runtime.step_tools import AskTool
from agent.runtime.tool import NotDone, Tool
from agent.store import judgements, views
from agent.store.requests import NewRequest
from agent.store.views import OpenCallDetails, QuestionContext
from agent.usecases import grants
from signoff.canonical import parse_arguments, parse_checked
from signoff.values import Action, Person

FACTS_TIMEOUT = 10.0
"""Seconds, unless the tool's timeout is shorter."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CurrentCall:
    """A call of a run as it would run now, with the loaded tool, its action, and its facts."""

    work: OpenCallDetails
    agent: Agent
    tool: Tool
    action: Action
    facts: Facts

    @property
    def proposal(self) -> Proposal:
        return proposal_of(self.work.run, self.tool, self.action, self.facts)


class Asker(Protocol):
    """A run, or a view of its request."""

    @property
    def agent(self) -> str: ...

    @property
    def requester(self) -> Person | None: ...

    @property
    def caller(self) -> Caller: ...


def would_run(agent: Agent, tool: Tool, action: Action, facts: Facts, judgement: Judgement) -> WouldRun:
    """What an approval of a run's call has to cover: the code that is loaded here, too."""
    return WouldRun(
        action,
        facts,
        judgement,
        signature=tool.signature.digest,
        executor=tool.executor,
        agent_version=agent.version,
    )


def proposal_of(asker: Asker, tool: Tool, action: Action, facts: Facts) -> Proposal:
    """Return an action with all that policy needs to judge it, and its tool's own say in the terms."""
    terms = partial(_terms, tool, action)
    form = tool.answer_form(action) if isinstance(tool, AskTool) else None
    return Proposal(action, facts, tool.traits, asker.agent, asker.requester, asker.caller, terms, form)


def _terms(tool: Tool, action: Action, rule: Rule) -> Rule:
    return tool.terms(rule, action)


def read_action(tool: Tool, raw_arguments: str) -> Action:
    """What the tool's types make of them, with defaults. Raises MalformedArguments, with the path."""
    return Action(tool.name, tool.version, tool.signature.complete(parse_arguments(raw_arguments)))


def as_of_now(tool: Tool, decided: Action) -> Action:
    """What would run: this tool, with today's defaults. Raises MalformedArguments if the arguments do not fit."""
    arguments = decided.arguments
    if not tool.signature.is_still_complete(arguments):
        arguments = tool.signature.complete(arguments)
    return Action(tool.name, tool.version, arguments)


async def look_up(services: Services, tool: Tool, action: Action, *, within: float = FACTS_TIMEOUT) -> Facts:
    """Raises NotDone if the tool does."""
    if tool.facts is None:
        return Facts()
    try:
        found = await services.user_code.call(
            tool.facts,
            tool.signature.values(action.arguments),
            name=f"facts of {tool.name}",
            within=min(within, tool.timeout),
        )
        facts = Facts(_plain(found))
        facts.canonical  # noqa: B018 - facts without canonical bytes could not be compared later
    except NotDone:
        raise
    except Exception as error:  # policy asks, and nothing runs
        why = stored_text.log_text(error, action.arguments)
        log.warning("facts failed", action="facts.failed", tool=tool.name, error=why)
        return Facts(failed=True)
    return facts


async def facts_of(services: Services, work: OpenCallDetails, tool: Tool, action: Action) -> Facts:
    """Raises NotDone. A further attempt is then judged by the facts of the first."""
    try:
        return await look_up(services, tool, action)
    except NotDone:
        # An earlier attempt may have done it; the tool recognises its key. A grant covers nothing without its facts.
        if not (work.attempts and tool.repeatable) or await grants.has_used(services.db, work.call.id):
            raise
    if work.action_decided:
        return Facts(parse_checked(work.facts) if work.facts else None)
    return await services.db.read(judgements.facts_that_let_run, work.call.id)


async def context_of(services: Services, call: CurrentCall, judgement: Judgement) -> QuestionContext:
    """Read what reviewers of a call see of its run, and the live grants that might make asking needless."""
    checkpoint = judgement.rule.checkpoint_id if judgement.rule and services.policy.grants else None
    about = (call.agent.name, call.tool.name, checkpoint)
    return await services.db.read(views.question_context, call.work.run.id, call.action.digest, *about)


def question(
    services: Services,
    call: CurrentCall,
    judgement: Judgement,
    states: tuple[LimitState, ...],
    context: QuestionContext,
) -> NewRequest:
    """Return the request that asks people about a call, by the rule that asks now or the earlier one."""
    work, tool = call.work, call.tool
    # What people were asked about is asked again, even if policy would now let it run.
    rule = judgement.rule or Rule.from_snapshot(work.policy or {})
    # One question per call, and one for each repetition.
    again = f":after:{work.call.request_id}" if work.call.request_id else ""
    return NewRequest(
        rule=rule,
        action=call.action,
        facts=call.facts.values,
        description=rule.describe(call.action, call.facts.values),
        rationale=transcript.rationale(context.messages, work.call.turn),
        context=transcript.context(work.run.task, context.messages, context.calls, but=work.call.id),
        agent=call.agent.name,
        agent_version=call.agent.version,
        requester=work.run.requester,
        requester_asserted=work.requester_asserted,
        destination=services.destination(rule.channel),
        client_id=f"{work.call.id}{again}",
        signature_digest=tool.signature.digest,
        run_id=work.run.id,
        call_id=work.call.id,
        background=tool.background,
        has_pending_hook=tool.on_pending is not None,
        executor=tool.executor,
        executor_key=tool.executor_key,
        limits=states,
        policy_epoch=judgement.epoch,
        judgement=judgement,
        rejected_before=judgement.rejected,
        answer_form=call.proposal.answer_form,
        gathered_in=gathered_in(
            _turn(work, context), rule, call.proposal.answer_form, services.policy.defaults.group_from
        ),
    )


def _turn(work: OpenCallDetails, context: QuestionContext) -> Batch | None:
    """The calls of the model's turn; a call that is asked about again is alone."""
    if work.call.request_id is not None:
        return None
    calls = sum(each.turn == work.call.turn for each in context.calls)
    return Batch(f"{work.run.id}.{work.call.turn}", calls)


def _plain(found: Any) -> dict[str, Any] | None:
    """Exact decimals become JSON numbers, so that conditions can compare them."""
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise TypeError(f"facts must return a mapping, not {type(found).__name__}")
    plain: dict[str, Any] = to_jsonable_python(_numbers(found))
    return plain


def _numbers(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _numbers(part) for key, part in value.items()}
        case list() | tuple():
            return [_numbers(part) for part in value]
        case Decimal():
            return _number(value)
        case _:
            return value


def _number(exact: Decimal) -> int | float:
    if exact == exact.to_integral_value():
        return int(exact)
    if Decimal(repr(float(exact))) != exact:
        raise ValueError(f"{exact} has more digits than a JSON number can hold")
    return float(exact)
