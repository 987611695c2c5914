"""Start agents whose schedules are due, with their requesters' current rights."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from uuid import UUID

import structlog

from agent.database.pools import Database
from agent.domain.cron import Cron
from agent.domain.errors import Refusal
from agent.domain.run import NewRun
from agent.domain.schedules import Schedule
from agent.runtime.services import Services
from agent.store.schedules import DueSchedule
from agent.usecases import schedules
from slackbot.reviewing import run_starts
from slackbot.reviewing.members import NotAMember
from slackbot.reviewing.run_starts import ChannelUnknown, NotStarted, Requester
from slackbot.slack_api.connection import SlackConnection

AGAIN = 10.0
"""Seconds until a retry if Slack, or a process with the agent, is missing."""

log = structlog.get_logger(__name__)


class NotNow(Exception):
    """Whether the run may start is not known yet."""


class ScheduledStarts:
    """The database allows each time once."""

    def __init__(self, services: Services, connected: Callable[[], SlackConnection | None]) -> None:
        self._services = services
        self._connected = connected
        self._not_before: dict[UUID, float] = {}

    async def sweep(self, db: Database) -> int:
        """Returns the number of new runs."""
        if self._connected() is None:
            return 0
        begun = 0
        for each in await schedules.due(db):
            if self._not_before.pop(each.schedule.id, 0.0) > monotonic():
                continue
            try:
                begun += await self._start(db, each)
            except NotNow as why:
                self._not_before[each.schedule.id] = monotonic() + AGAIN
                about = {"schedule_id": str(each.schedule.id), "agent": each.schedule.agent}
                log.warning("a schedule waits", action="schedule.waits", because=str(why), **about)
        return begun

    async def _start(self, db: Database, due: DueSchedule) -> bool:
        schedule = due.schedule
        if schedule.next_at is None:
            return False
        grace = timedelta(seconds=schedule.grace_seconds)
        at = new = missed = None
        try:
            at = Cron(schedule.cron, schedule.timezone).latest(schedule.next_at, due.now, grace)
        except ValueError as unreadable:  # an earlier version, or its time zones, could read it
            missed = f"not started, and the schedule is paused: {unreadable}"
        else:
            if at is None:
                due_at = f"{schedule.next_at:%Y-%m-%d %H:%M} UTC"
                missed = f"missed: it was due at {due_at}, and nobody could start it in time"
        if at is not None:
            try:
                new = await self._prepared(schedule)
            except NotAMember as refused:
                missed = f"not started: {refused.sentence}"
            except NotStarted as problem:
                missed = f"not started: {problem}"
        run = new or self._without_rights(schedule)
        return await schedules.start(db, schedule, at or schedule.next_at, due.now, run, missed) is not None

    async def _prepared(self, schedule: Schedule) -> NewRun:
        """Raises NotNow, NotAMember and NotStarted."""
        agent, slack = self._services.registry.find(schedule.agent), self._connected()
        if agent is None or slack is None:
            raise NotNow(f"no agent named {schedule.agent} is loaded here (SIGNOFF_AGENTS)")
        try:
            return await run_starts.prepare(
                self._services,
                slack.directory,
                agent,
                schedule.task,
                Requester(schedule.requester, "schedule"),
                f"schedule:{schedule.id}",
                channel_id=schedule.channel_id,
                label=schedule.label,
            )
        except ChannelUnknown as error:
            raise NotNow(str(error)) from None
        except NotAMember as refused:
            if refused.code in (Refusal.LOOKUP_FAILED, Refusal.RATE_LIMITED_LOOKUP):
                raise NotNow(str(refused)) from None
            raise

    def _without_rights(self, schedule: Schedule) -> NewRun:
        """The failed run of a time at which nothing could start."""
        agent, home = self._services.registry.find(schedule.agent), self._services.destination(None)
        return NewRun(
            agent=schedule.agent,
            agent_version=agent.version if agent else "unknown",
            task=schedule.task,
            principal=f"schedule:{schedule.id}",
            requester=schedule.requester,
            requester_asserted="schedule",
            team_id=home.team_id,
            channel_id=schedule.channel_id or home.channel_id,
            label=schedule.label,
        )
