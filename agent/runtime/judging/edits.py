"""Evaluate an edited action as its tool and policy would a proposal."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.facts import Facts
from agent.domain.policy import Policy
from agent.domain.request import API, EXTERNAL
from agent.domain.request_view import RequestView
from agent.runtime.agents import Registry
from agent.runtime.judging.evaluation import Proposal, judge, uses_of
from agent.runtime.judging.programs import proposal_of_program
from agent.runtime.judging.run_calls import look_up, proposal_of
from agent.runtime.services import Services
from agent.runtime.tool import NotDone, Tool
from agent.usecases.requests import Edit, EditAttempt
from signoff.canonical import canonical_bytes, plain_json
from signoff.errors import MalformedArguments
from signoff.values import COMMAND, FOLDER, Action

EDIT_TIMEOUT = 1.2
"""Seconds for facts: Slack wants a click's acknowledgement within 3 s."""

NOT_ASKED_WITH = (
    "the program that asked did not send this argument and might act without it, so nothing was changed; "
    "reject the request instead, and say what you want"
)


async def judge_edit(
    services: Services,
    view: RequestView,
    arguments: Mapping[str, Any],
    attempt: EditAttempt,
    *,
    within: float = EDIT_TIMEOUT,
) -> Edit:
    """Read a reviewer's arguments like the tool, look up facts (``within`` seconds) and evaluate policy.

    Raises MalformedArguments, ``NotFound`` if the tool is not served here, OutdatedPolicy, and ``Refused`` if facts
    cannot be looked up or policy denies.
    """
    if view.source == API:
        return await _judge_outside_edit(services, view, arguments, attempt, within)
    tool = _tool(services.registry, view)
    action = Action(tool.name, tool.version, tool.signature.complete(plain_json(arguments)))
    try:
        facts = await look_up(services, tool, action, within=within)
    except NotDone as nothing:
        raise MalformedArguments("$", str(nothing)) from None
    if facts.failed:
        raise Refused(Refusal.EDIT_UNCHECKED)
    edit = _edit(services.policy, attempt, proposal_of(view, tool, action, facts))
    return replace(edit, signature_digest=tool.signature.digest)


def _edit(policy: Policy, attempt: EditAttempt, proposal: Proposal) -> Edit:
    judgement = judge(policy, proposal)
    if judgement.verdict == "deny":
        raise Refused(Refusal.EDIT_DENIED, because=judgement.told)
    return Edit(
        attempt.request_id,
        attempt.revision,
        attempt.editor,
        proposal.action,
        proposal.facts.values,
        judgement.rule,
        attempt.path,
        attempt.place,
        uses=uses_of(policy, proposal),
        facts_source=proposal.facts.source,
        policy_epoch=judgement.epoch,
        judgement=judgement,
    )


def schema_of(registry: Registry, view: RequestView) -> Mapping[str, Any]:
    """External values keep their types. Raises ``NotFound``."""
    if view.source != API:
        schema: Mapping[str, Any] = _tool(registry, view).offered["function"]["parameters"]
        return schema
    found = {
        name: _TYPES.get(type(value), {})
        for name, value in view.action.arguments.items()
        if name not in (COMMAND, FOLDER)
    }
    return {"type": "object", "properties": found, "required": list(found)}


_TYPES: dict[type, dict[str, str]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "number"},
    float: {"type": "number"},
}


def _tool(registry: Registry, view: RequestView) -> Tool:
    agent = registry.find(view.agent)
    tool = agent.tool(view.action.tool) if agent else None
    if tool is None:
        raise NotFound(f"the tool {view.action.tool} is not served here")
    return tool


async def _judge_outside_edit(
    services: Services, view: RequestView, arguments: Mapping[str, Any], attempt: EditAttempt, within: float
) -> Edit:
    """Facts come from Signoff only. No top-level argument may be added: frameworks drop unknown ones."""
    if view.action.tool == EXTERNAL:
        raise Refused(Refusal.EDIT_NOT_ALLOWED)
    if added := arguments.keys() - view.action.arguments.keys():
        raise MalformedArguments(f"$.{min(added)}", NOT_ASKED_WITH)
    for name, what in ((COMMAND, "command that runs"), (FOLDER, "directory")):
        if canonical_bytes(arguments.get(name)) != canonical_bytes(view.action.arguments.get(name)):
            raise MalformedArguments(f"$.{name}", f"the {what} cannot be changed")
    action = Action(view.action.tool, view.action.tool_version, plain_json(arguments))
    requester = view.requester.user_id if view.requester else None
    policy, facts = services.policy, Facts()
    if (lookup := policy.lookup(action.tool)) is not None:
        facts = await services.look_up(lookup, action, view.agent, requester, view.principal, within)
    if facts.failed:
        raise Refused(Refusal.EDIT_UNCHECKED)
    return _edit(policy, attempt, proposal_of_program(view, action, facts))
