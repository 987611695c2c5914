"""The demo's parts that need nothing to run."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from rich.console import Console

from agent.domain import checkpoints
from agent.domain.errors import PolicyError
from slack_sandbox import demo_workspace
from slackbot.demo import rules, tour
from slackbot.demo.run import _greet
from slackbot.demo.scene import Scene, SceneFailed
from slackbot.demo.service import environment
from slackbot.demo.workdir import claim_workdir


def test_the_programs_that_the_demo_names_are_there() -> None:
    """What it prints once it runs names the guide's program, the folder of the others, and the database."""
    told = Console(record=True, width=200, file=StringIO())
    stand: Any = MagicMock(database_url="postgresql://@/demo?host=/a&port=1")
    _greet(told, stand, None, "signoff_key")
    text = told.export_text()
    assert "export DATABASE_URL='postgresql://@/demo?host=/a&port=1'" in text
    named = re.findall(r"\bexamples/[\w.]*", text)
    assert named == ["examples/guide_agent.py", "examples/"]
    assert all((Path(__file__).parents[2] / each).exists() for each in named)


def test_nothing_of_the_callers_settings_reaches_the_service() -> None:
    """Tokens, addresses, switches and proxies of the caller's environment are left out; the rest stays."""
    caller = {
        "DATABASE_URL": "postgresql://production",
        "DATABASE_URL_FILE": "/secret",
        "SLACK_BOT_TOKEN": "xoxb-real",
        "OPENAI_API_KEY": "sk-real",
        "SIGNOFF_ROLES": "web",
        "https_proxy": "http://proxy",
        "HTTP_PROXY": "http://proxy",
        "HOME": "/somewhere/me",
    }
    made = environment(caller, {"SLACK_BOT_TOKEN": "xoxb-sandbox"}, None)
    assert made["HOME"] == "/somewhere/me"
    assert made["SLACK_BOT_TOKEN"] == "xoxb-sandbox"
    assert not {"DATABASE_URL", "DATABASE_URL_FILE", "OPENAI_API_KEY", "SIGNOFF_ROLES"} & made.keys()
    assert not {"https_proxy", "HTTP_PROXY"} & made.keys()


def test_demos_of_one_folder_keep_out_of_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one demo runs the next one gets a folder of its own, and afterwards the first folder is free again."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path))
    with claim_workdir() as first, claim_workdir() as second:
        assert (first.path.name, second.path.name) == ("demo", "demo-2")
    with claim_workdir() as third:
        assert third.path == first.path


def test_a_checkpoints_file_works_in_the_sandbox_as_it_is() -> None:
    """Channels, groups and people that a file names and the sandbox lacks are added, and that is said."""
    text = """
        [defaults]
        channel = "#deploys"
        approvers = ["S0FINANCE", "S09OPS", "U07BOSS"]
        [[checkpoint]]
        checkpoint_id = "deploy"
        action_pattern = "deploy"
        channel = "C0RELEASES"
    """
    workspace = demo_workspace()
    said = rules.invite(checkpoints.load(text, filename="checkpoints.toml"), workspace)
    named = {channel.name for channel in workspace.channels.values()}
    assert "deploys" in named
    assert "C0RELEASES" in workspace.channels
    assert set(workspace.usergroups["S09OPS"].users) == {"U0GRACE", "U0LINUS"}
    assert all("U07BOSS" in channel.members for channel in workspace.channels.values())
    assert len(said) == 4
    assert not any("S0FINANCE" in line for line in said)


def test_a_bad_checkpoints_file_of_the_folder_is_refused(tmp_path: Path) -> None:
    """`signoff demo --agents` enforces the folder's rules or does not start; it never falls back to others."""
    (tmp_path / "checkpoints.toml").write_text("[defaults]\nunmatched = 'perhaps'\n")
    with pytest.raises(PolicyError, match=r"checkpoints\.toml:2"):
        rules.of_folder(tmp_path)


def test_the_tour_fits_the_workspace_it_is_given_in() -> None:
    """Whom the page's panel acts as, and where, exists; its rules expire what the panel says will expire."""
    workspace = demo_workspace()
    steps: list[dict[str, Any]] = tour.for_refunds()["steps"]
    (crash,) = [step for step in steps if "lever" in step]
    assert (crash["lever"], crash["label"]) == (tour.CRASH, "Crash the service")
    steps.remove(crash)
    assert all(step["as"] in workspace.members for step in steps)
    assert all(step["channel"] in workspace.channels for step in steps)
    largest = rules.of_the_tour(rules.SECONDS).policy.rules[0]
    assert largest.timeout.total_seconds() == rules.SECONDS
    assert any(f"{rules.SECONDS} seconds" in step["text"] for step in steps)
    assert rules.invite(rules.of_the_tour(rules.SECONDS).policy, workspace) == []


async def test_a_scene_fails_when_something_is_not_seen() -> None:
    """What is not as expected within its time ends the scene, is kept, and makes it a failure."""
    scene = Scene("Nothing happens", lambda check: None)
    with pytest.raises(SceneFailed):
        await scene.see("the refund", "REFUNDED", lambda: "PAID", within=0.05)
    assert not scene.ok
    assert (scene.checks[0].expected, scene.checks[0].observed) == ("REFUNDED", "PAID")


def test_a_scene_in_which_nothing_was_looked_at_is_no_success() -> None:
    """An empty scene proves nothing."""
    assert not Scene("Empty", lambda check: None).ok
