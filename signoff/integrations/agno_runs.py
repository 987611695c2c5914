from __future__ import annotations

import asyncio
from functools import partial

from signoff.integrations.extras import missing_framework

try:
    from agno.agent import Agent
    from agno.db.base import AsyncBaseDb
    from agno.run.agent import RunOutput
    from agno.run.base import RunStatus
except ImportError as error:
    raise missing_framework("Agno", "agno") from error

NO_DB = "an agent whose runs wait for people needs a db, where they are kept"

UNFINISHED = (RunStatus.pending, RunStatus.running, RunStatus.error)
"""Killed or failed runs, which can continue."""


class RunLeft(BaseException):
    """Leaves a run unchanged in storage. A BaseException, because Agno catches every Exception and would continue."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


async def continued_run(agent: Agent, run: RunOutput) -> RunOutput:
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


async def stored_run(agent: Agent, run_id: str) -> RunOutput | None:
    if isinstance(agent.db, AsyncBaseDb):
        found = await agent.db.get_run(run_id)
    elif agent.db is not None:
        found = await asyncio.to_thread(agent.db.get_run, run_id)
    else:
        raise ValueError(NO_DB)
    return found if isinstance(found, RunOutput) else None


async def paused_runs(agent: Agent) -> list[RunOutput]:
    agent.set_id()
    if isinstance(agent.db, AsyncBaseDb):
        found = await agent.db.get_runs(agent_id=agent.id, status=RunStatus.paused)
    elif agent.db is not None:
        look = partial(agent.db.get_runs, agent_id=agent.id, status=RunStatus.paused)
        found = await asyncio.to_thread(look)
    else:
        raise ValueError(NO_DB)
    return [each for each in found if isinstance(each, RunOutput)]


def latest_of(given: RunOutput, stored: RunOutput | None) -> RunOutput:
    """Prefer the given run at the same pause: the caller may have set values in it."""
    same = stored is None or (given.is_paused and stored.is_paused and _asked(given) == _asked(stored))
    return given if same or stored is None else stored


def _asked(run: RunOutput) -> list[str]:
    return [each.id for each in run.requirements or ()]


def id_of(run: RunOutput) -> str:
    return str(run.run_id)


def turn_of(run: RunOutput) -> int:
    """The same if the run begins again; the ids of the model's calls may start again in each turn."""
    return sum(bool(each.tool_calls) and not each.from_history for each in run.messages or ())


def task_of(run: RunOutput) -> dict[str, str] | None:
    """Part of the question's content, so every process must produce the same."""
    return {"task": run.input.input_content_string()} if run.input else None
