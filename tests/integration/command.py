from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from slackbot import cli
from tests.integration.crash.process import Ended

BOT_TOKEN = "xoxb-7465737420626f74"
APP_TOKEN = "xapp-746573742061707"
SIGNING = "5349474e494e47"
PASSWORD = "pa55word-of-the-database"
SECRETS = (BOT_TOKEN, APP_TOKEN, SIGNING, PASSWORD)

CHECKPOINTS = """
[defaults]
approvers = ["S0FINANCE"]
timeout = "1h"
"""
AGENTS = '''
from signoff import Agent, tool

@tool
def delete_records(count: int) -> str:
    """Delete records."""
    return "deleted"

@tool(read_only=True)
def list_tables() -> str:
    """List tables."""
    return "users"

agent = Agent("data", "You manage data.", [delete_records, list_tables])
'''


@dataclass
class Command:
    """`signoff` in a folder with everything that `serve` needs."""

    folder: Path
    environment: dict[str, str]
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: str, **changes: str | None) -> Ended:
        """A setting of `None` is not set."""
        with self.monkeypatch.context() as patched:
            for name, value in (self.environment | changes).items():
                if value is not None:
                    patched.setenv(name, value)
            patched.chdir(self.folder)
            patched.setattr(sys, "argv", ["/usr/bin/signoff", *arguments])
            patched.setattr(sys, "path", list(sys.path))
            patched.setenv("COLUMNS", changes.get("COLUMNS") or "200")
            self.capture.readouterr()
            try:
                cli.main()
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
        said = self.capture.readouterr()
        return Ended(status, said.out + said.err)

    def is_wrong(self, *arguments: str, **changes: str | None) -> list[str]:
        """Return the error lines."""
        ended = self(*arguments, **changes)
        assert ended.status == 2, ended.said
        lines = ended.said.splitlines()
        assert lines
        assert all(line.startswith("signoff: ") for line in lines), ended.said
        assert not any(secret in ended.said for secret in SECRETS)
        return lines


@pytest.fixture
def signoff(
    tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    (tmp_path / "checkpoints.toml").write_text(CHECKPOINTS)
    (tmp_path / "the_agents.py").write_text(AGENTS)
    environment = {
        "DATABASE_URL": database_url,
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_APP_TOKEN": APP_TOKEN,
        "SLACK_API_URL": "http://127.0.0.1:9/api/",
        "SIGNOFF_CHANNEL": "C0REVIEW",
        "SIGNOFF_AGENTS": "the_agents",
        "SIGNOFF_PORT": "0",
    }
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    known = set(sys.modules)
    yield Command(tmp_path, environment, capsys, monkeypatch)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    for name in set(sys.modules) - known:
        if name in ("the_agents", "my_agents", "broken"):
            del sys.modules[name]
