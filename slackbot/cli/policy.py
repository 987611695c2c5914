"""`signoff check`: what the checkpoints file makes of each tool."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from agent.domain import checkpoints
from agent.runtime.agents import load_agents
from slackbot.cli.ground import read_policy, read_settings


def check() -> None:
    """Check the settings, the checkpoints file and the agents; list which rule catches each tool."""
    configured = read_settings()
    for name in configured.unknown:
        typer.echo(f"there is no setting {name}; it is ignored", err=True)
    policy, registry = read_policy(configured), load_agents(configured.agents)
    table = Table(
        "agent", "tool", "what happens to a call", title=f"{configured.checkpoints}", title_justify="left"
    )
    for agent in registry:
        for tool in agent.tools:
            fate = checkpoints.explain(policy, tool.traits).removeprefix(f"{tool.name}: ")
            table.add_row(agent.name, tool.name, fate)
    Console().print(
        table if table.row_count else "no agents are loaded: name their modules in SIGNOFF_AGENTS"
    )
    typer.echo(f"policy digest {policy.digest.hex()}")
