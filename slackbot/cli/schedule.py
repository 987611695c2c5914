"""`signoff schedule`: start agents at fixed times."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar
from uuid import UUID

import typer

from agent.database.pools import Database
from agent.domain.cron import Cron
from agent.domain.schedules import GRACE, NewSchedule, Schedule
from agent.domain.short_ids import short_id
from agent.runtime.agents import LoadError, load_agents
from agent.usecases import schedules
from signoff.gate.options import duration
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.command_group import ListByDefault
from slackbot.cli.person_option import read_person
from slackbot.cli.requests import JsonFlag
from slackbot.masking import clean_now
from slackbot.settings import Settings

T = TypeVar("T")

commands = typer.Typer(
    cls=ListByDefault,
    invoke_without_command=True,
    help="Start agents at fixed times: add, list, pause or remove schedules.",
)

ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="The schedule's id, or a prefix.")]

_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,}\Z")


@commands.command()
def add(
    agent: Annotated[str, typer.Option(help="Which agent.")],
    cron: Annotated[str, typer.Option(help='When: "0 9 * * 1" is every Monday at nine.')],
    task: Annotated[str, typer.Option(help="The agent's task.")],
    on_behalf_of: Annotated[
        str,
        typer.Option(
            "--for", help="The requester of every run (U…, or T…/U…), who is responsible for it. Usually you."
        ),
    ],
    team: Annotated[
        str | None, typer.Option(help="That person's workspace (T…); looked up in Slack by default.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="The time zone, such as Europe/Berlin.")] = "UTC",
    channel: Annotated[
        str | None,
        typer.Option(help="The channel of its threads (C…); the service's own channel by default."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="A label beside the agent's name.")] = None,
    grace: Annotated[
        str, typer.Option(help="How late a start may still be made up for, such as 30m.")
    ] = f"{int(GRACE.total_seconds())}s",
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Add a schedule: from now on, start an agent at these times."""
    configured = read_settings()
    if channel is not None and not _CHANNEL.match(channel):
        raise typer.BadParameter("must be a channel's id: C…", param_hint="--channel")
    try:
        Cron(cron, timezone)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cron") from None
    new = NewSchedule(
        agent=agent,
        task=task,
        cron=cron,
        timezone=timezone,
        requester=read_person(configured, on_behalf_of, team, "--for"),
        channel_id=channel,
        label=label,
        grace=duration("--grace", grace),
    )
    added = with_database(configured, use_embedded, schedules.add, new, by=terminal.actor())
    typer.echo(f"schedule {added.id}: {agent} starts next at {terminal.when(added.next_at)}")
    if (known := _known(configured)) is not None and agent not in known:
        typer.echo(
            f'signoff: no agent named "{clean_now(agent)}" is loaded here (SIGNOFF_AGENTS); the schedule is added, '
            "and its starts are missed where no process has loaded that agent",
            err=True,
        )


@commands.command("list")
def list_schedules(use_json: JsonFlag = False, use_embedded: EmbeddedFlag = False) -> None:
    """List the schedules, each with the result of its last start."""
    found = with_database(read_settings(), use_embedded, schedules.list_schedules)
    if use_json:
        for each in found:
            typer.echo(terminal.as_json(_record(each)))
        return
    columns = ["id", "agent", "when", "next", "for", "channel", "task", "last"]
    terminal.table(
        columns, map(_row, found), nothing="nothing is scheduled; `signoff schedule add` adds a schedule"
    )


@commands.command()
def remove(schedule_id: ScheduleId, use_embedded: EmbeddedFlag = False) -> None:
    """Remove a schedule; runs that it has started continue."""
    found, _ = with_database(read_settings(), use_embedded, _act, schedule_id, schedules.remove)
    typer.echo(f"schedule {found} is removed")


@commands.command()
def pause(schedule_id: ScheduleId, use_embedded: EmbeddedFlag = False) -> None:
    """Pause a schedule; starts that fall due in the meantime are skipped."""
    found, turned = with_database(read_settings(), use_embedded, _act, schedule_id, schedules.pause)
    typer.echo(f"schedule {found} {'is' if turned else 'was already'} paused")


@commands.command()
def resume(schedule_id: ScheduleId, use_embedded: EmbeddedFlag = False) -> None:
    """Resume a paused schedule; it starts at its next time."""
    found, turned = with_database(read_settings(), use_embedded, _act, schedule_id, schedules.resume)
    typer.echo(f"schedule {found} {'is resumed' if turned else 'was not paused'}")


async def _act(db: Database, id_prefix: str, act: Callable[..., Awaitable[T]]) -> tuple[UUID, T]:
    found = await schedules.find(db, id_prefix)
    return found, await act(db, found, by=terminal.actor())


def _known(configured: Settings) -> Sequence[str] | None:
    """None if the agents cannot be loaded."""
    try:
        return [agent.name for agent in load_agents(configured.agents)]
    except LoadError:
        return None


def _row(schedule: Schedule) -> list[str]:
    return [
        short_id(schedule.id),
        terminal.line(f"{schedule.agent} “{schedule.label}”" if schedule.label else schedule.agent, 100),
        terminal.line(f"{schedule.cron} ({schedule.timezone})", 100),
        terminal.when(schedule.next_at) or "paused",
        terminal.who(schedule.requester),
        schedule.channel_id or "",
        terminal.line(clean_now(schedule.task), 80),
        _last(schedule),
    ]


def _last(schedule: Schedule) -> str:
    if schedule.last_run_id is None:
        return "never"
    came = terminal.line(clean_now(schedule.last_missed), 80) if schedule.last_missed else "started"
    return f"{terminal.when(schedule.last_at)}: {came}, run {short_id(schedule.last_run_id)}"


def _record(schedule: Schedule) -> dict[str, object]:
    requester = schedule.requester
    return {
        "id": str(schedule.id),
        "agent": schedule.agent,
        "label": schedule.label,
        "task": clean_now(schedule.task),
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "requester": {"team_id": requester.team_id, "user_id": requester.user_id},
        "channel_id": schedule.channel_id,
        "grace_seconds": schedule.grace_seconds,
        "created_by": schedule.created_by,
        "created_at": terminal.rfc3339(schedule.created_at),
        "next_at": terminal.rfc3339(schedule.next_at),
        "last_at": terminal.rfc3339(schedule.last_at),
        "last_run_id": str(schedule.last_run_id) if schedule.last_run_id else None,
        "last_missed": schedule.last_missed,
    }
