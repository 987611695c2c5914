"""A run is started for a person or a program, on every path alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack
from uuid import UUID

from agent.domain.run import NewRun
from agent.runtime.agents import Agent
from agent.runtime.services import Services
from agent.usecases import runs
from agent.usecases.runs import QuotedMessage, StartOutcome
from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.reviewing.members import check_member
from slackbot.slack_api.client import SlackError
from slackbot.slack_api.directory import Directory

MAX_TASK = 8000
"""Characters. A message has at most 40,000; longer is a document, not a task."""

CHANNEL_UNKNOWN = "Slack did not confirm this channel, so nothing was started. Please try again in a moment."


class NotStarted(SignoffError):
    """The task or channel cannot be used; the text says why."""


class ChannelUnknown(NotStarted):
    """Slack did not confirm that the channel can be used; it may later."""


class RunOptions(TypedDict, total=False):
    """A run's optional details; a second start with the same `start_key` finds the first run."""

    channel_id: str | None
    start_key: str | None
    session_id: str | None
    program_user: str | None
    api_key_id: UUID | None
    label: str | None


@dataclass(frozen=True, slots=True)
class Requester:
    """A run's requester, and how that is known; no person: nobody in Slack."""

    person: Person | None
    asserted: Literal["slack", "key-owner", "on-behalf", "schedule", "none"]


async def prepare(
    services: Services,
    directory: Directory,
    agent: Agent,
    task: str,
    requester: Requester,
    principal: str,
    **options: Unpack[RunOptions],
) -> NewRun:
    """A run in a channel's thread, one per ``start_key``. Raises NotAMember and NotStarted."""
    if len(task) > MAX_TASK:
        raise NotStarted(f"This task has {len(task):,} characters; the limit is {MAX_TASK:,}.")
    await check_member(directory, requester.person)
    return NewRun(
        agent=agent.name,
        agent_version=agent.version,
        task=task,
        principal=principal,
        requester=requester.person,
        requester_asserted=requester.asserted,
        team_id=directory.own_team_id,
        channel_id=await _channel(services, directory, options.get("channel_id")),
        start_key=options.get("start_key"),
        session_id=options.get("session_id"),
        program_user=options.get("program_user"),
        api_key_id=options.get("api_key_id"),
        label=options.get("label"),
    )


async def start(
    services: Services,
    directory: Directory,
    agent: Agent,
    task: str,
    requester: Requester,
    principal: str,
    *,
    quoted: QuotedMessage | None = None,
    **options: Unpack[RunOptions],
) -> StartOutcome:
    """Start a run as `prepare` describes it."""
    new = await prepare(services, directory, agent, task, requester, principal, **options)
    return await runs.start(services.db, new, quoted)


async def _channel(services: Services, directory: Directory, channel_id: str | None) -> str:
    if channel_id is None:
        return services.destination(None).channel_id
    try:
        problem = await directory.channel_problem(channel_id)
    except (SlackError, TimeoutError):
        raise ChannelUnknown(CHANNEL_UNKNOWN) from None
    if problem:
        raise NotStarted(problem)
    return channel_id
