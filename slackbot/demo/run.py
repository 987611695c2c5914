"""`signoff demo`: from the command line to a running demo, and back to a clean machine."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from signoff.errors import SignoffError
from slack_sandbox import demo_workspace
from slackbot.demo import rules, tour
from slackbot.demo.environment import DemoEnvironment, Tell, open_environment
from slackbot.demo.service import ServiceFailed
from slackbot.demo.workdir import Workdir, claim_workdir

INTERRUPTED = 130


def run_demo(*, auto: bool, agents: str | None, port: int) -> int:
    """Run the demo until it is stopped, or with `auto` until it is played; returns the exit code.

    Raises SignoffError.
    """
    if auto and agents:
        raise SignoffError("--auto plays the tour of the refund agent; leave --agents away")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without "✓" gets a "?", not a traceback
    console = Console(highlight=False, soft_wrap=True)
    try:
        with claim_workdir() as workdir:
            return asyncio.run(_run(console, workdir, auto=auto, agents=agents, port=port))
    except ServiceFailed as failed:
        console.print(f"[red]✗[/] {escape(str(failed))}; the end of its log:")
        for line in failed.tail:
            console.print(f"  {escape(line)}")
        return 1


async def _run(console: Console, workdir: Workdir, *, auto: bool, agents: str | None, port: int) -> int:
    _stop_on_signals(console)
    tell = _teller(console)
    names = _load(agents)
    policy = (
        rules.of_folder(Path.cwd())
        if agents
        else rules.of_the_tour(rules.SECONDS_AUTO if auto else rules.SECONDS)
    )
    workspace = rules.workspace_of_agents() if agents else demo_workspace()
    for remark in (*policy.remarks, *rules.invite(policy.policy, workspace)):
        tell(remark)
    panel = tour.for_refunds() if names is None else tour.for_agents(names)
    try:
        async with open_environment(workdir, policy, workspace, panel, tell, port=port, agents=agents) as env:
            if auto:
                from slackbot.demo.play import play  # noqa: PLC0415 - it reads the database, which costs a moment

                return await env.while_it_lives(play(env, console))
            _greet(console, env, names, await env.new_key())
            await env.while_it_lives(asyncio.Event().wait())
    except asyncio.CancelledError:
        console.print("stopped; no process is left")
        return INTERRUPTED if auto else 0
    return 0


def _load(agents: str | None) -> list[str] | None:
    """The names of somebody's own agents. Raises LoadError."""
    if agents is None:
        return None
    from agent.runtime.agents import load_agents  # noqa: PLC0415 - the tour does without

    return [agent.name for agent in load_agents(agents.replace(",", " ").split())]


def _greet(console: Console, env: DemoEnvironment, names: list[str] | None, key: str) -> None:
    console.print()
    console.print(f"[bold]Open {env.slack.url}[/]   (the panel on the right says what to try)")
    console.print()
    console.print(escape(tour.in_terminal(names)))
    console.print()
    console.print(
        f"  Pull the plug at any moment:   kill -9 {env.service.pid}   (the service; it is started again)"
    )
    console.print("  A program of your own asks with this key, as Ada:")
    console.print(f"     SIGNOFF_URL={env.address} SIGNOFF_KEY={key} python examples/guide_agent.py")
    console.print(
        "     In examples/ lie others, for LangGraph, LangChain, OpenAI Agents, pydantic-ai, DBOS and MCP."
    )
    console.print("  Operators' commands (`signoff requests`, `keys`, `webhooks`) look here with:")
    console.print(f"     export DATABASE_URL='{escape(env.database_url)}'")
    console.print(f"  How it is: {env.health}   What it says: {env.workdir.log}")
    console.print("  Ctrl-C stops everything.")
    console.print()


def _teller(console: Console) -> Tell:
    began = time.monotonic()

    def tell(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:5.1f} s[/]  {escape(line)}")

    return tell


def _stop_on_signals(console: Console) -> None:
    """The first signal stops everything in order; more of them change nothing, since every step has a deadline."""
    running, loop = asyncio.current_task(), asyncio.get_running_loop()
    seen: list[int] = []

    def stop(number: int) -> None:
        if not seen and running is not None:
            console.print("\nstopping …")
            running.cancel()
        seen.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
