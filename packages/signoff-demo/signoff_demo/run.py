"""The demo from start to end: its parts are started, shown, and stopped."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from signoff.errors import SignoffError
from signoff_demo import guided_agents, guided_scenes, rules
from signoff_demo import model as models
from signoff_demo.environment import DemoEnvironment, Tell, open_environment
from signoff_demo.sandbox import demo_workspace
from signoff_demo.service import ServiceFailed
from signoff_demo.workdir import Workdir, claim_workdir

INTERRUPTED = 130
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "guide_agent.py"
"""An external program that asks; only in a checkout."""


def run_demo(*, auto: bool, agents: str | None, port: int, model: str | None = None) -> int:
    """Run until stopped, or with `auto` until played. Returns the exit code.

    `agents`: modules of the current folder, like SIGNOFF_AGENTS; `model`: a real one, reached with OPENAI_… from the
    environment. Raises SignoffError, one line, if the demo cannot start.
    """
    if auto and (agents or model):
        raise SignoffError("--auto plays the tour with its own agents and a scripted model; use it alone")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # "?" if the terminal cannot show "✓"
    console = Console(highlight=False, soft_wrap=True)
    try:
        with claim_workdir() as workdir:
            return asyncio.run(_run(console, workdir, auto=auto, agents=agents, port=port, model=model))
    except ServiceFailed as failed:
        console.print(f"[red]✗[/] {escape(str(failed))}; the end of its log:")
        for line in failed.tail:
            console.print(f"  {escape(line)}")
        return 1


async def _run(
    console: Console, workdir: Workdir, *, auto: bool, agents: str | None, port: int, model: str | None
) -> int:
    _stop_on_signals(console)
    tell = _line_printer(console)
    names = _load(agents)
    provider = await models.real(model, os.environ) if model else None
    seconds = rules.SECONDS_AUTO if auto else rules.SECONDS
    policy = rules.folder_policy(Path.cwd()) if agents else rules.tour_policy(seconds)
    workspace = rules.workspace_of_agents() if agents else demo_workspace()
    for remark in (*policy.remarks, *rules.invite(policy.policy, workspace)):
        tell(remark)
    guide = (
        guided_scenes.for_refunds(seconds)
        if names is None
        else guided_agents.for_agents(names, scripted=provider is None)
    )
    try:
        async with open_environment(
            workdir, policy, workspace, guide, tell, port=port, agents=agents, model=provider
        ) as env:
            if auto:
                from signoff_demo.play import play  # noqa: PLC0415 - slow to import

                return await env.while_running(play(env, console))
            _print_intro(console, env, await env.new_key())
            await env.while_running(asyncio.Event().wait())
    except asyncio.CancelledError:
        console.print("stopped; no process is left")
        return INTERRUPTED if auto else 0
    return 0


def _load(agents: str | None) -> list[str] | None:
    """Raises LoadError."""
    if agents is None:
        return None
    from agent.runtime.agents import load_agents  # noqa: PLC0415 - not needed for the tour

    return [agent.name for agent in load_agents(agents.replace(",", " ").split())]


def _print_intro(console: Console, env: DemoEnvironment, key: str) -> None:
    console.print(f"\n[bold]Open {env.slack.url}[/]   The guide there has a button for each step.\n")
    console.print("Commands for another terminal, in this directory:")
    for command in _commands(env, key):
        console.print(f"  {escape(command)}")
    console.print("\nCtrl-C stops everything.\n")


def _commands(env: DemoEnvironment, key: str) -> list[str]:
    """The commands run as printed."""
    python = _typed(Path(sys.executable))
    signoff = _typed(Path(sys.executable).with_name("signoff"))
    commands = [f"kill -9 {env.service.pid}  # crash the service; it restarts"]
    if EXAMPLE.is_file():
        place = f"SIGNOFF_URL={env.address} SIGNOFF_KEY={key}"
        commands.append(f"{place} {python} {_typed(EXAMPLE)}  # a program asks for approval")
    database = f"DATABASE_URL={shlex.quote(env.database_url)}"
    return [
        *commands,
        f"{database} {signoff} requests  # what operators see",
        f"tail -f {_typed(env.workdir.log)}  # the log of the service",
    ]


def _typed(path: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _line_printer(console: Console) -> Tell:
    began = time.monotonic()

    def tell(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:5.1f} s[/]  {escape(line)}")

    return tell


def _stop_on_signals(console: Console) -> None:
    """The first signal stops everything in order; later ones are ignored, since every step has a deadline."""
    running, loop = asyncio.current_task(), asyncio.get_running_loop()
    seen: list[int] = []

    def stop(number: int) -> None:
        if not seen and running is not None:
            console.print("\nstopping …")
            running.cancel()
        seen.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
