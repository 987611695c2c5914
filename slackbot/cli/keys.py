"""`signoff keys`: create, list, revoke and rotate API keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.api_keys import KeyLine, Scope
from agent.domain.expression import compile_when
from agent.domain.policy import Policy
from agent.domain.rules import Checkpoint
from agent.usecases import api_keys
from agent.usecases import policy as policies
from signoff.gate.options import duration
from signoff.values import Person
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.person_option import read_person
from slackbot.settings import Settings

commands = typer.Typer(no_args_is_help=True, help="Manage API keys for programs.")

Name = Annotated[str, typer.Argument(help="The key's name.")]

ONCE = "The key is shown only once: Signoff stores only its hash. Put it where only its program can read it."


@commands.command()
def create(
    name: Annotated[
        str,
        typer.Argument(help="The key's name, in lists and in the audit log.", callback=terminal.no_secret),
    ],
    scope: Annotated[
        list[Scope],
        typer.Option(help="What the key may do; repeat for several. A key that requests can never decide."),
    ],
    owner: Annotated[
        str | None,
        typer.Option(help="The person behind it, as a Slack user id (U…, or T…/U…): requester, or voter."),
    ] = None,
    team: Annotated[
        str | None, typer.Option(help="The owner's workspace (T…); looked up in Slack by default.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="The agent under whose name it asks.", callback=terminal.no_secret),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="How long it is valid: 90d, 24h; without limit by default.")
    ] = None,
    per_minute: Annotated[int, typer.Option(help="How many calls per minute it may make.", min=1)] = 600,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Create a key and print it once."""
    until = datetime.now(UTC) + duration("--expires", expires) if expires else None
    configured = read_settings()
    person = _owner(configured, owner, team)
    secret = with_database(
        configured,
        use_embedded,
        api_keys.create,
        name,
        scope,
        by=terminal.actor(),
        owner=person,
        agent=agent,
        expires_at=until,
        per_minute=per_minute,
    )
    _show_once(secret)
    if agent is None and Scope.REQUEST in scope:
        for warning in with_database(configured, use_embedded, _about_agents):
            typer.echo(warning, err=True)


@commands.command("list")
def list_keys(
    use_json: Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")] = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """List all keys; only their prefixes are known."""
    found = with_database(read_settings(), use_embedded, api_keys.list_keys)
    if use_json:
        typer.echo(terminal.as_json([_as_json(key) for key in found], indent=2))
        return
    terminal.table(
        ["name", "begins with", "scopes", "owner", "agent", "a minute", "made", "state"],
        [
            [
                terminal.line(key.name, 64),
                f"{key.prefix}…",
                " ".join(sorted(key.scopes)),
                terminal.who(key.owner),
                terminal.line(key.agent or "", 64),
                str(key.per_minute),
                terminal.when(key.created_at),
                _state(key),
            ]
            for key in found
        ],
        nothing="there are no keys; `signoff keys create` makes one",
    )


@commands.command()
def revoke(name: Name, use_embedded: EmbeddedFlag = False) -> None:
    """Revoke a key at once and for good."""
    with_database(read_settings(), use_embedded, api_keys.revoke, name, by=terminal.actor())
    typer.echo(f"the key {terminal.line(name, 64)} is revoked")


@commands.command()
def rotate(
    name: Name,
    keep_old: Annotated[
        str | None,
        typer.Option(help="How long the old secret keeps working, such as 24h; by default it ends at once."),
    ] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Give a key a new secret and print it once; name, scopes and owner stay."""
    keep = duration("--keep-old", keep_old) if keep_old else timedelta()
    secret = with_database(
        read_settings(), use_embedded, api_keys.rotate, name, by=terminal.actor(), keep_old=keep
    )
    _show_once(secret)


async def _about_agents(db: Database) -> list[str]:
    """What counts on the agent's name, which a key without `--agent` chooses itself."""
    stored = await policies.in_force(db)
    now = checkpoints.load(stored.source, filename=f"policy {stored.epoch}") if stored else Policy()
    limits = [f'limit "{limit.name}"' for limit in now.limits if limit.per == "agent"]
    rules = [f'checkpoint "{each.checkpoint_id}"' for each in now.in_file_order if _reads_agent(each)]
    if not limits and not rules:
        return []
    those = ", ".join([*rules, *limits])
    return [
        f"Warning: this key may name any agent (--agent binds it), and these depend on the name: {those}."
    ]


def _reads_agent(checkpoint: Checkpoint) -> bool:
    return checkpoint.when is not None and "agent" in compile_when(checkpoint.when).variables


def _show_once(secret: str) -> None:
    """The key alone to standard output, for pipes; the warning to standard error."""
    typer.echo(secret)
    typer.echo(ONCE, err=True)


def _owner(configured: Settings, owner: str | None, team: str | None) -> Person | None:
    """Raises SignoffError."""
    if owner is None and team is not None:
        raise typer.BadParameter("needs --owner", param_hint="--team")
    return None if owner is None else read_person(configured, owner, team, "--owner")


def _state(key: KeyLine) -> str:
    if key.revoked_at is not None:
        return f"revoked {terminal.when(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    over = key.expires_at <= datetime.now(UTC)
    return f"{'expired' if over else 'valid until'} {terminal.when(key.expires_at)}"


def _as_json(key: KeyLine) -> dict[str, Any]:
    return {
        "id": str(key.id),
        "name": key.name,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        "owner": {"team_id": key.owner.team_id, "user_id": key.owner.user_id} if key.owner else None,
        "agent": key.agent,
        "per_minute": key.per_minute,
        "created_at": terminal.rfc3339(key.created_at),
        "expires_at": terminal.rfc3339(key.expires_at),
        "revoked_at": terminal.rfc3339(key.revoked_at),
    }
