"""Paused runs of Agno's agents and teams: found, compared and continued."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from signoff.integrations.extras import missing_framework

try:
    from agno.agent import Agent
    from agno.db.base import AsyncBaseDb
    from agno.run.agent import RunOutput
    from agno.run.base import RunStatus
    from agno.run.cancel import ais_cancelled
    from agno.run.requirement import RunRequirement
    from agno.run.team import TeamRunOutput
    from agno.team import Team
    from agno.tools import Toolkit
    from agno.tools.function import Function
    from agno.utils.team import get_member_id
except ImportError as error:
    raise missing_framework("Agno", "agno") from error

Runner = Agent | Team
Run = RunOutput | TeamRunOutput

NO_DB = "an agent whose runs wait for people needs a db, where they are kept"

UNFINISHED = (RunStatus.pending, RunStatus.running, RunStatus.error)
"""Killed or failed runs, which can continue."""


class RunLeft(BaseException):
    """Leaves a run unchanged in storage. A BaseException, because Agno catches every Exception and would continue."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


async def continued_run(agent: Runner, run: Run) -> Run:
    """Raises what kept a guarded tool from starting."""
    try:
        return await agent.acontinue_run(
            run_id=run.run_id,
            session_id=run.session_id,
            user_id=run.user_id,
            requirements=run.requirements if run.is_paused else None,
            stream=False,
        )
    except RunLeft as left:
        raise left.reason from None


async def stored_run(agent: Runner, run_id: str) -> Run | None:
    """Return a run from the agent's database; None if it has none. Raises ValueError without a database."""
    if isinstance(agent.db, AsyncBaseDb):
        found = await agent.db.get_run(run_id)
    elif agent.db is not None:
        found = await asyncio.to_thread(agent.db.get_run, run_id)
    else:
        raise ValueError(NO_DB)
    return found if isinstance(found, Run) else None


async def is_cancelled(run_id: str) -> bool:
    """Whether Agno's cancellation manager was told to cancel it: in this process, or in all that share its Redis.

    Agno stores nothing for a run that is paused.
    """
    return await ais_cancelled(run_id)


async def store_cancelled(agent: Runner, run: Run) -> None:
    """So that it stays cancelled in every process, and for AgentOS."""
    run.status = RunStatus.cancelled
    run.requirements = [each for each in run.requirements or () if each.is_resolved()]
    session = str(run.session_id)
    if isinstance(agent.db, AsyncBaseDb):
        await agent.db.upsert_run(run, session, user_id=run.user_id)
    elif agent.db is not None:
        await asyncio.to_thread(agent.db.upsert_run, run, session, user_id=run.user_id)


async def paused_runs(agent: Runner) -> list[Run]:
    """Those of a team's member are continued by their team."""
    agent.set_id()
    whose: dict[str, Any] = {"team_id" if isinstance(agent, Team) else "agent_id": agent.id}
    if isinstance(agent.db, AsyncBaseDb):
        found = await agent.db.get_runs(**whose, status=RunStatus.paused)
    elif agent.db is not None:
        look = partial(agent.db.get_runs, **whose, status=RunStatus.paused)
        found = await asyncio.to_thread(look)
    else:
        raise ValueError(NO_DB)
    return [each for each in found if isinstance(each, Run) and each.parent_run_id is None]


def is_run_of(agent: Runner, run: Run) -> bool:
    """Whether a run is one of this very agent or team, by id."""
    return (run.team_id if isinstance(run, TeamRunOutput) else run.agent_id) == agent.id


def has_ended(run: Run) -> bool:
    """Whether a run can no longer be continued: it is neither paused, pending nor running."""
    return run.status not in (RunStatus.paused, RunStatus.pending, RunStatus.running)


def latest_of(given: Run, stored: Run | None) -> Run:
    """Prefer the given run at the same pause: the caller may have set values in it."""
    same = stored is None or (given.is_paused and stored.is_paused and _asked(given) == _asked(stored))
    return given if same or stored is None else stored


def _asked(run: Run) -> list[str]:
    return [each.id for each in run.requirements or ()]


def id_of(run: Run) -> str:
    """Return a run's id as text, because Agno types it as optional."""
    return str(run.run_id)


def run_asking(run: Run, waiting: RunRequirement) -> str:
    """The run whose call waits: a member's own, or this one."""
    return waiting.member_run_id or id_of(run)


def functions_named(agent: Runner, member: str | None, name: str | None) -> list[Function]:
    """The tool of the member that asks, at any depth of the team. Several if members have the same id."""
    owners = [agent] if member is None else _members(agent, member)
    given = [each for owner in owners if isinstance(owner.tools, list) for each in owner.tools]
    return [
        function
        for each in given
        for function in (
            (*each.functions.values(), *each.async_functions.values())
            if isinstance(each, Toolkit)
            else (each,)
        )
        if isinstance(function, Function) and function.name == name
    ]


def _members(agent: Runner, name: str) -> list[Runner]:
    if not isinstance(agent, Team) or not isinstance(agent.members, list):
        return []
    deeper = [found for each in agent.members if isinstance(each, Team) for found in _members(each, name)]
    return [each for each in agent.members if get_member_id(each) == name] + deeper


def task_of(run: Run) -> dict[str, str] | None:
    """Part of the question's content, so every process must produce the same."""
    return {"task": run.input.input_content_string()} if run.input else None
