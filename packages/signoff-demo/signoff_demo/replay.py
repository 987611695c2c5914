"""The guide's *Replay*: past calls under a lower limit."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from signoff_demo.guide import say
from signoff_demo.rules import DemoPolicy
from signoff_demo.sandbox import SandboxWorkspace
from signoff_demo.service import environment
from signoff_demo.workdir import Workdir

JUDGED_AGAIN = "evaluations were replayed"

LIMIT, STRICTER = "facts.price > 1000.0", "facts.price > 300.0"
COLUMNS = 100


async def try_policy(
    workdir: Workdir, rules: DemoPolicy, workspace: SandboxWorkspace, settings: Mapping[str, str]
) -> str:
    """Replay under a copy of the policy with a lower limit, and post the output."""
    file = workdir.path / "stricter.toml"
    file.write_text(rules.text.replace(LIMIT, STRICTER), encoding="utf-8")
    arguments = ("check", "replay", "--since", "1d", "--policy", str(file), "--show", "5")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "slackbot",
        *arguments,
        env=environment(os.environ, {**settings, "COLUMNS": str(COLUMNS)}, None),
        cwd=workdir.path,  # no .env of the caller's folder is read
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    answer = said.decode(errors="replace").strip()
    say(workspace, f"```$ signoff check replay --since 1d --policy {file.name}\n{answer}```")
    return "Its answer is in #agents." if process.returncode == 0 else "The command failed; see #agents."
