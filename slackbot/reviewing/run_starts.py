"""Starting a run, on every path: who may start which agent where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from agent.domain.run import NewRun
from agent.runtime.agents import Agent
from agent.runtime.services import Services
from agent.usecases import runs
from agent.usecases.runs import StartOutcome
from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.reviewing.members import check_member
from slackbot.slack_api.client import SlackError
from slackbot.slack_api.directory import Directory

MAX_TASK = 8000
"""Characters. A message has at most 40,000; a task longer than this is a document, not a task."""

CHANNEL_UNKNOWN = (
    "Slack did not tell us about this channel, so nothing was started. Please try again in a moment."
)


class NotStarted(SignoffError):
    """The task or the channel of a run cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Requester:
    """On whose behalf a run starts, and how that is known. No person: nobody in Slack."""

    person: Person | None
    asserted: Literal["slack", "key-owner", "on-behalf", "none"]


async def start(
    services: Services,
    directory: Directory,
    agent: Agent,
    task: str,
    requester: Requester,
    principal: str,
    *,
    channel_id: str | None = None,
    start_key: str | None = None,
    session_id: str | None = None,
    api_key_id: UUID | None = None,
    label: str | None = None,
) -> StartOutcome:
    """Start this agent in a channel's thread, once for each ``start_key``. Raises NotAMember and NotStarted."""
    if len(task) > MAX_TASK:
        raise NotStarted(f"This task has {len(task):,} characters; the limit is {MAX_TASK:,}.")
    await check_member(directory, requester.person)
    new = NewRun(
        agent=agent.name,
        agent_version=agent.version,
        task=task,
        principal=principal,
        requester=requester.person,
        requester_asserted=requester.asserted,
        team_id=directory.own_team_id,
        channel_id=await _channel(services, directory, channel_id),
        start_key=start_key,
        session_id=session_id,
        api_key_id=api_key_id,
        label=label,
    )
    return await runs.start(services.db, new)


async def _channel(services: Services, directory: Directory, channel_id: str | None) -> str:
    if channel_id is None:
        return services.destination(None).channel_id
    try:
        problem = await directory.channel_problem(channel_id)
    except (SlackError, TimeoutError):
        problem = CHANNEL_UNKNOWN
    if problem:
        raise NotStarted(problem)
    return channel_id
