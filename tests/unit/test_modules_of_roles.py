"""A process loads only the libraries of its roles: each takes memory in every process, for as long as it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = """
import json, sys
from slackbot import cli
cli.opened("serve")
from agent.database.pools import Database
from slackbot import settings
from slackbot.app import Service
from agent.runtime.agents import load_agents

configured = settings.read(json.loads(sys.argv[1]))
policy = configured.read_policy(configured.checkpoints.read_text(), "checkpoints.toml")
registry = load_agents(configured.agents)
Service(configured, Database(configured.database_url.get_secret_value()), policy, registry)
print(json.dumps(sorted(sys.modules)))
"""

CHECKPOINTS = """
[defaults]
channel = "C0REVIEW"

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "process_*"
approvers = ["S0FINANCE"]
timeout = "24h"
when = "args.amount > 100"
"""

NEVER = {
    "aiosmtplib",  # without a mail server
    "alembic",
    "cryptography",  # until somebody signs in with Slack, or sends an Idempotency-Key
    "h2",
    "httpcore2",  # until a webhook or a look-up of facts is sent
    "joserfc",
    "openai",  # until a model is asked
    "opentelemetry.sdk",
    "prompt_toolkit",
    "rich",
    "signoff_demo.sandbox",
    "slackbot.service.doctor",
}
OF_WEB = {
    "aiohttp.web",
    "fastapi",
    "jinja2",
    "slack_bolt",
    "slackbot.slack.listeners",
    "slackbot.web.application",
}
OF_SCHEDULER = {"apscheduler"}

ROLES = {
    "web": NEVER | OF_SCHEDULER,
    "worker": NEVER | OF_WEB | OF_SCHEDULER,
    "scheduler": NEVER | OF_WEB,
    "worker,scheduler": NEVER | OF_WEB,
    "web,worker,scheduler": NEVER,
}


@pytest.mark.parametrize("roles", ROLES)
def test_a_process_loads_nothing_that_its_roles_do_not_need(roles: str, tmp_path: Path) -> None:
    """What a role does not need is not loaded by a process of that role alone; what it needs is."""
    loaded = _modules(roles, tmp_path)

    assert not loaded & ROLES[roles]
    if "web" in roles:
        assert loaded >= OF_WEB
    if "scheduler" in roles:
        assert loaded >= OF_SCHEDULER


def test_the_library_of_conditions_stays_whole_for_agents(tmp_path: Path) -> None:
    """An agent that imports the library of conditions, or its command line, gets all of it."""
    code = (
        "from agent.domain.expression import compile_when; compile_when('args.a > 1')\n"
        "import sys; assert 'cel.cli' not in sys.modules\n"
        "from cel import cli; import cel; assert cli.main and cel.compile('1 + 1').execute({}) == 2"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _modules(roles: str, folder: Path) -> set[str]:
    checkpoints = folder / "checkpoints.toml"
    checkpoints.write_text(CHECKPOINTS)
    environment = {
        "DATABASE_URL": "postgresql://127.0.0.1:9/nowhere",
        "SLACK_BOT_TOKEN": "xoxb-nobody",
        "SLACK_SIGNING_SECRET": "secret",
        "SIGNOFF_AGENTS": "signoff_demo.examples.refunds,signoff_demo.examples.data_manager",
        "SIGNOFF_CHECKPOINTS": str(checkpoints),
        "SIGNOFF_PUBLIC_URL": "https://signoff.example",
        "SIGNOFF_ROLES": roles,
    }
    answer = subprocess.run(
        [sys.executable, "-c", BUILD, json.dumps(environment)],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return set(json.loads(answer.stdout.splitlines()[-1]))
