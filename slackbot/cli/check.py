"""`signoff check`: settings, policy and agents, before they are used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agent.domain import tool_outline
from agent.domain.limits import length
from agent.domain.policy import Policy
from agent.domain.rules import Terms
from agent.runtime.agents import Registry, load_agents
from agent.runtime.checks.policy_lint import few_reviewers, lint_policy, user_groups
from agent.runtime.checks.tool_lint import lint_tools
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_policy, read_settings
from slackbot.cli.explain import explain
from slackbot.cli.open_work import OpenWorkChoice, check_pending
from slackbot.cli.replay import replay
from slackbot.settings import Settings

PendingFlag = Annotated[
    bool,
    typer.Option(
        "--pending",
        help="List open work that this code and policy would strand; exit code 1 if anything is.",
    ),
]
ReAskFlag = Annotated[
    bool,
    typer.Option(
        "--re-ask", help="With --pending: ask again where possible. Use it once the new version runs."
    ),
]
CancelFlag = Annotated[
    bool, typer.Option("--cancel", help="With --pending: withdraw, void or cancel what was found.")
]


commands = typer.Typer(invoke_without_command=True)
commands.command()(explain)
commands.command()(replay)


@commands.callback()
def check(
    ctx: typer.Context,
    pending: PendingFlag = False,
    re_ask: ReAskFlag = False,
    cancel: CancelFlag = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Check settings, policy and agents, and list which checkpoint catches each tool."""
    if ctx.invoked_subcommand is not None:
        return
    if re_ask and cancel:
        raise typer.BadParameter("--re-ask and --cancel exclude each other")
    if (re_ask or cancel) and not pending:
        raise typer.BadParameter("--re-ask and --cancel need --pending")
    configured = read_settings()
    for name in configured.unknown:
        typer.echo(f"there is no setting {name}; it is ignored", err=True)
    policy, registry = read_policy(configured), load_agents(configured.agents)
    if pending:
        choice = (
            OpenWorkChoice.ASK_AGAIN if re_ask else OpenWorkChoice.CANCEL if cancel else OpenWorkChoice.KEEP
        )
        check_pending(configured, policy, registry, choice, use_embedded=use_embedded)
    else:
        _list_tools(configured, policy, registry)


def _list_tools(configured: Settings, policy: Policy, registry: Registry) -> None:
    table = Table(
        "agent", "tool", "what happens to a call", title=f"{configured.checkpoints}", title_justify="left"
    )
    for agent in registry:
        for tool in agent.tools:
            outcome = tool_outline.explain(policy, tool.traits).removeprefix(f"{tool.name}: ")
            table.add_row(agent.name, tool.name, outcome)
    if table.row_count:
        Console().print(table)
    else:  # not wrapped, so that the command can be copied
        typer.echo("no agents are loaded; name their modules, as in: SIGNOFF_AGENTS=my_agents signoff check")
    terminal.table(["checkpoint", "channel", "deadline", "approvers"], _asked(configured, policy), nothing="")
    lines = lint_policy(policy, registry, configured.checkpoints.name, datetime.now(UTC))
    for line in (*lines, *lint_tools(registry), *asyncio.run(_few_reviewers(configured, policy))):
        typer.echo(line, err=True)
    typer.echo(f"policy digest {policy.digest.hex()}")


def _asked(configured: Settings, policy: Policy) -> Iterator[tuple[str, str, str, str]]:
    """Who would be asked where, and how long; the defaults last, as evaluation takes them."""
    named: list[tuple[str, Terms]] = [(rule.checkpoint_id, rule) for rule in policy.all_rules]
    for name, terms in (*named, ("[defaults]", policy.defaults)):
        approvers = ", ".join(terms.approvers)
        needed = f", {terms.approvals_required} of them" if terms.approvals_required > 1 else ""
        channel = terms.channel or configured.channel or "not set: SIGNOFF_CHANNEL"
        yield name, channel, length(terms.timeout), f"{approvers}{needed}"


async def _few_reviewers(configured: Settings, policy: Policy) -> list[str]:
    """Slack knows the members of user groups; without a token nobody is asked."""
    if configured.slack_bot_token is None or not (groups := user_groups(policy)):
        return []
    from slackbot.slack_api.client import SlackClient, SlackError  # noqa: PLC0415 - takes a second to import
    from slackbot.slack_api.workspace import group_members  # noqa: PLC0415

    client = SlackClient(configured.slack_bot_token.get_secret_value(), configured.slack_api_url)
    try:
        members = await group_members(client, groups)
    except SlackError as error:
        return [f"the members of {', '.join(groups)} were not counted: {error}"]
    finally:
        await client.close()
    name = configured.checkpoints.name
    return [f"{name}:{line}: {sentence}" for line, sentence in few_reviewers(policy, members)]
