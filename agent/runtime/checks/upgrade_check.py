"""What this code and policy would do with open work: ask again, never run it, or never pick it up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from agent.database.pools import Database
from agent.domain.coverage import uncovered
from agent.domain.policy import Policy
from agent.runtime.agents import Agent, Registry
from agent.runtime.function_agents import FunctionAgent
from agent.runtime.judging.run_calls import would_run
from agent.store import views
from agent.store.views import OpenCall
from agent.usecases.runs.resumption import GO_ON
from signoff.errors import MalformedArguments
from signoff.values import Action


class Remedy(StrEnum):
    """What an operator can do about open work that the loaded code or policy would strand."""

    ASK_AGAIN = "ask again"  # for the current version
    CANCEL = "cancel"  # nobody can be asked


@dataclass(frozen=True, slots=True)
class StrandedItem:
    """A run that nobody would advance, or a call that would not run as approved."""

    run_id: UUID
    agent: str
    why: str
    remedy: Remedy
    call: OpenCall | None = None  # None: the whole run


async def find_stranded(db: Database, registry: Registry, policy: Policy) -> list[StrandedItem]:
    """Stranded items, whole runs first."""
    async with db.connection() as connection:
        found = [
            StrandedItem(run_id, name, "the agent no longer exists", Remedy.CANCEL)
            for name, run_id in await views.runs_of_others(connection, [agent.name for agent in registry])
        ]
        functions = {agent.name: agent for agent in registry if isinstance(agent, FunctionAgent)}
        for run in await views.approved_versions(connection, list(functions), GO_ON):
            agent = functions[run.agent]
            if agent.version != run.agent_version:
                asked, now = run.agent_version, agent.version
                why = f"the agent is at version {now}, but people were asked about version {asked}"
                found.append(StrandedItem(run.run_id, run.agent, why, Remedy.CANCEL))
        async for call in views.open_calls(connection):
            served = registry.find(call.agent)
            if served is not None and (problem := _problem(served, policy, call)) is not None:
                why, remedy = problem
                found.append(StrandedItem(call.run_id, call.agent, why, remedy, call))
    return found


def _problem(agent: Agent, policy: Policy, call: OpenCall) -> tuple[str, Remedy] | None:
    tool = agent.tool(call.tool)
    if tool is None:
        return "the tool no longer exists", Remedy.CANCEL
    action = Action.from_canonical(call.action)
    try:
        completed = tool.signature.complete(action.arguments)
    except MalformedArguments as error:
        return f"its arguments no longer fit the tool: {error}", Remedy.CANCEL
    requester = call.requester.user_id if call.requester else None
    facts = call.facts_shown
    judged = policy.judge(tool.traits, action, facts.values, call.agent, requester)
    if judged.verdict == "deny":
        return f"policy denies it now: {judged.told}", Remedy.CANCEL
    if call.request_id is None:
        same = tool.version == action.tool_version
        return None if same else (f"the tool is now at version {tool.version}", Remedy.ASK_AGAIN)
    now = Action(tool.name, tool.version, completed)
    would = would_run(agent, tool, now, facts, judged)
    missing = uncovered(call, action, would)
    return None if missing is None else (f"{missing.because}: an approval no longer counts", Remedy.ASK_AGAIN)
