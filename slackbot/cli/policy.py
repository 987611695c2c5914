"""`signoff policy`: put a checkpoints file into force, go back, show and list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.domain.policy import Policy
from agent.store import clock
from agent.store.policy import StoredPolicy
from agent.usecases import policy as policies
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import (
    EmbeddedFlag,
    check_channels,
    read_settings,
    read_source,
    with_database,
)
from slackbot.cli.observed import observed
from slackbot.settings import Settings

commands = typer.Typer(
    no_args_is_help=True,
    help="Put a policy in force, show it, list earlier ones, or go back to one.",
)
commands.command()(observed)


@commands.command()
def apply(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The checkpoints file.")],
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Put a checkpoints file into force in every process at once. A file with a mistake changes nothing."""
    configured = read_settings(checkpoints=str(file))
    source, name = read_source(configured), configured.checkpoints.name
    configured.read_policy(source, name)  # mistakes are reported without a database

    async def work(db: Database) -> tuple[Policy, StoredPolicy | None, StoredPolicy]:
        wanted = configured.read_policy(source, name, now=await db.read(clock.now))
        await _check(configured, wanted)
        before = await policies.in_force(db)
        return wanted, before, await policies.apply(db, wanted, by=terminal.actor())

    wanted, before, now = with_database(configured, use_embedded, work)
    unchanged = before is not None and before.epoch == now.epoch
    typer.echo(
        f"policy {now.epoch} was in force already, with this text" if unchanged else _in_force(now, wanted)
    )


@commands.command()
def back(
    to: Annotated[int | None, typer.Option(min=1, help="Its number; the previous one by default.")] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Put an earlier policy back into force, by its number in `history`."""
    configured = read_settings()

    async def work(db: Database) -> tuple[Policy, StoredPolicy]:
        now, earlier = await policies.earlier(db, to)
        name = f"policy {earlier.epoch}"
        wanted = configured.read_policy(earlier.source, name)
        await _check(configured, wanted)
        by = terminal.actor()
        return wanted, await policies.restore(db, now, earlier, wanted.digest, by=by)

    wanted, now = with_database(configured, use_embedded, work)
    typer.echo(_in_force(now, wanted))


@commands.command()
def show(
    number: Annotated[int | None, typer.Argument(min=1, help="The number of an earlier one.")] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Print the policy in force, or an earlier one, as a checkpoints file."""

    async def work(db: Database) -> StoredPolicy | None:
        return await policies.in_force(db) if number is None else await policies.find(db, number)

    found = with_database(read_settings(), use_embedded, work)
    if found is None:
        raise NotFound("no policy is in force yet: the first start puts the checkpoints file in force")
    typer.echo(found.source, nl=not found.source.endswith("\n"))


@commands.command()
def history(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """List the policies that were in force, newest first."""
    found = with_database(read_settings(), use_embedded, policies.history, limit)
    terminal.table(
        ["policy", "in force since", "by", "digest", "brings back"],
        [
            (
                str(each.epoch),
                terminal.when(each.created_at),
                terminal.line(each.by, 60),
                each.digest.hex()[:12],
                str(each.restores or ""),
            )
            for each in found
        ],
        nothing="no policy is in force yet: the first start puts the checkpoints file in force",
    )


def _in_force(stored: StoredPolicy, wanted: Policy) -> str:
    brings = f", which brings back policy {stored.restores}" if stored.restores else ""
    number = len(wanted.deciding)
    return (
        f"policy {stored.epoch} is in force{brings}: {number} checkpoint{'' if number == 1 else 's'}, "
        f"digest {stored.digest.hex()[:12]}"
    )


async def _check(configured: Settings, wanted: Policy) -> None:
    """A start's checks: every request has a channel, and Slack knows the channels.

    Raises SignoffError. If Slack is unreachable, the channels are checked later.
    """
    check_channels(configured, wanted)
    if configured.slack_bot_token is None:
        return
    from slackbot.slack_api.client import SlackClient, SlackError  # noqa: PLC0415 - takes a second to import
    from slackbot.slack_api.directory import Directory  # noqa: PLC0415
    from slackbot.slack_api.workspace import find_channel, identify  # noqa: PLC0415

    client = SlackClient(configured.slack_bot_token.get_secret_value(), configured.slack_api_url)
    try:
        home = await identify(client)
        directory = Directory(client, home.team_id, home.bot_user_id)
        for name in sorted(wanted.channels):
            await find_channel(client, directory, name)
    except SlackError as error:
        typer.echo(f"the channels were not checked, because Slack cannot be reached: {error}", err=True)
    except NotFound as error:
        raise SignoffError(f"{configured.checkpoints}: {error}") from None
    finally:
        await client.close()
