"""The limits of a run: steps, tokens and time."""

from __future__ import annotations

from agent.runtime import transcript
from agent.runtime.agents import Agent
from agent.runtime.services import Services
from agent.store import views
from agent.usecases.runs import LeasedRun


async def exceeded_limit(services: Services, leased: LeasedRun, agent: Agent) -> str | None:
    """Return a sentence on the run's limit of steps, tokens or time that is used up, or None."""
    steps = transcript.steps_since_person(leased.messages)
    if steps >= agent.max_steps:
        return f"step limit: {steps} turns since a person last wrote (max_steps = {agent.max_steps})"
    if (used := leased.run.tokens - leased.run.tokens_before) >= agent.max_tokens:
        return f"token limit: {used} tokens used (max_tokens = {agent.max_tokens})"
    return await overtime(services, leased, agent)


async def overtime(services: Services, leased: LeasedRun, agent: Agent) -> str | None:
    """Return a sentence if the run has been at work for too long, not counting waits for people, or None."""
    user_messages = [message.at for message in leased.messages if message.role == "user"]
    since = user_messages[-1] if user_messages else leased.run.created_at
    seconds = (leased.at - since).total_seconds()
    if seconds < agent.max_seconds:
        return None
    seconds -= await services.db.read(views.seconds_waited, leased.run.id, since)
    if seconds < agent.max_seconds:
        return None
    return (
        f"time limit: at work for {seconds:,.0f} s since a person last wrote, not counting time "
        f"spent waiting for people (max_seconds = {agent.max_seconds:g})"
    )
