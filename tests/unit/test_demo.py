"""The demo's parts that need nothing to run."""

from __future__ import annotations

import shlex
import shutil
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from agent.domain import checkpoints
from agent.domain.errors import PolicyError
from signoff.errors import SignoffError
from signoff_demo import guided_scenes, rules
from signoff_demo import model as models
from signoff_demo.actors import ADA, AGENTS, GRACE, LINUS, REVIEWS
from signoff_demo.guide import CRASH, welcome
from signoff_demo.played import PlayedScene, SceneFailed
from signoff_demo.run import _print_intro
from signoff_demo.sandbox import SlackSandbox, demo_workspace
from signoff_demo.sandbox.model import MODEL_NAME, ScriptedModel
from signoff_demo.service import environment
from signoff_demo.workdir import Workdir, claim_workdir
from slackbot.cli import COMMANDS


def test_every_command_that_the_demo_prints_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed is a shell command as it stands: its program, its file and its sub-command exist."""
    monkeypatch.chdir(tmp_path)
    console = Console(record=True, width=400, file=StringIO())
    url = "postgresql://postgres@/demo?host=/a&port=1"
    env: Any = SimpleNamespace(
        slack=SimpleNamespace(url="http://127.0.0.1:1"),
        address="http://127.0.0.1:2",
        service=SimpleNamespace(pid=3),
        database_url=url,
        workdir=Workdir(tmp_path / "a b"),
    )
    _print_intro(console, env, "signoff_key")
    typed = [line for line in console.export_text().splitlines() if line.startswith("  ")]
    parts = [shlex.split(line, comments=True) for line in typed]
    given = [dict(word.split("=", 1) for word in words if "=" in word) for words in parts]
    commands = [[word for word in words if "=" not in word] for words in parts]
    assert all(shutil.which(words[0]) for words in commands)
    kill, example, requests, log = commands
    assert kill == ["kill", "-9", "3"]
    assert Path(example[1]).is_file()
    assert given[1] == {"SIGNOFF_URL": "http://127.0.0.1:2", "SIGNOFF_KEY": "signoff_key"}
    assert requests[1] in COMMANDS
    assert given[2] == {"DATABASE_URL": url}
    assert log == ["tail", "-f", "a b/service.log"]


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
        rules.folder_policy(tmp_path)


def test_what_the_demo_cannot_enforce_is_not_blamed_on_a_setting(tmp_path: Path) -> None:
    """The demo reads no settings, so of e-mail and look-ups it says to leave them out, and not what to set."""
    for text in (
        '[defaults]\nemail = ["a@example.com"]',
        '[[facts]]\ntool = "t"\nurl = "https://example.com"',
    ):
        (tmp_path / "checkpoints.toml").write_text(text)
        with pytest.raises(PolicyError, match="the demo reads none of your settings; leave it out here"):
            rules.folder_policy(tmp_path)


def test_the_guide_fits_the_workspace_it_is_given_in() -> None:
    """Whom it acts as, and where, exists; its first scene asks for approval; its rules expire what it says will."""
    workspace = demo_workspace()
    guide = guided_scenes.for_refunds()
    steps = [step for scene in guide.scenes for step in scene.steps]
    assert [step.label for step in steps if step.act.get("lever") == CRASH] == ["Crash the service"]
    assert (
        {step.act["as"] for step in steps if "as" in step.act}
        == {ADA, GRACE, LINUS}
        <= set(workspace.members)
    )
    assert all(step.act.get("channel", AGENTS) in workspace.channels for step in steps)
    assert all(step.at or {"channel", "home", "lever"} & set(step.act) for step in steps)
    assert [step.label for step in guide.scenes[0].steps] == ["Ask as Ada", "Show Grace the card"]
    deeds = {"command", "reply", "home", "lever"}
    assert [step.text for step in steps if not (step.press or deeds & set(step.act))] == []
    largest = rules.tour_policy(rules.SECONDS).policy.rules[0]
    assert largest.timeout.total_seconds() == rules.SECONDS
    assert any(f"{rules.SECONDS} seconds" in scene.intro for scene in guide.scenes)
    assert rules.invite(rules.tour_policy(rules.SECONDS).policy, workspace) == []


def test_a_step_is_ticked_when_the_sandbox_has_seen_it() -> None:
    """A command alone ticks nothing. The card does, and leads to the next step; the tick stays when the card goes."""
    slack = SlackSandbox(demo_workspace())
    guide = guided_scenes.for_refunds()

    def steps() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = guide(slack)["scenes"][0]["steps"]
        return found

    slack.person(ADA).say(AGENTS, "/agent run refunds please refund order 7")
    asked, approve = steps()
    assert (asked["done"], asked["command"]) == (False, "/agent run refunds please refund order 7")
    assert (approve["done"], approve["waits"]) == (False, True)

    channel = slack.workspace.channels[REVIEWS]
    metadata = {"event_payload": {"request": "1"}}
    card = slack.workspace.post(
        channel, {"text": "Refund for order 7 · Waiting", "metadata": metadata, "blocks": []}
    )
    asked, approve = steps()
    assert (asked["done"], approve["done"], approve["waits"]) == (True, False, False)
    assert (approve["as"], approve["channel"], approve["ts"]) == (GRACE, REVIEWS, card["ts"])

    slack.workspace.edit(channel, card["ts"], {"text": "Approved: Refund for order 7"})
    assert guide.finished(slack) == ["Approve a refund"]
    slack.workspace.delete(channel, card["ts"])
    assert guide.finished(slack) == ["Approve a refund"]


def test_the_welcome_is_there_before_anything_else() -> None:
    """The first visitor reads in #agents what this is, and the service receives nothing of it."""
    workspace = demo_workspace()
    events: list[Any] = []
    workspace.on_event = events.append
    welcome(workspace)
    [first] = workspace.messages.roots(AGENTS)
    assert "Welcome to Signoff" in first["text"]
    assert events == []


async def test_a_real_model_needs_a_key_and_has_to_be_there() -> None:
    """Without a key nothing is asked; a wrong key and an unknown model are distinguished, each in one line."""
    with pytest.raises(SignoffError, match="needs OPENAI_API_KEY"):
        await models.real(MODEL_NAME, {"OPENAI_BASE_URL": "http://127.0.0.1:9"})
    async with ScriptedModel(api_key="right") as server:
        caller = {"OPENAI_API_KEY": "wrong", "OPENAI_BASE_URL": server.base_url, "DATABASE_URL": "no"}
        with pytest.raises(SignoffError, match=r"^--model m: 127.0.0.1:\d+ does not accept OPENAI_API_KEY$"):
            await models.real("m", caller)
        caller["OPENAI_API_KEY"] = "right"
        with pytest.raises(SignoffError, match=r"^--model m: 127.0.0.1:\d+ has no model 'm'$"):
            await models.real("m", caller)
        assert await models.real(MODEL_NAME, caller) == {
            "OPENAI_API_KEY": "right",
            "OPENAI_BASE_URL": server.base_url,
            "SIGNOFF_MODEL": MODEL_NAME,
        }
        assert server.requests == []  # no question that costs something
        behind = await models.real(MODEL_NAME, caller | {"https_proxy": "http://proxy:3128"})
        assert behind["ALL_PROXY"] == "http://proxy:3128"


async def test_a_scene_fails_when_something_is_not_seen() -> None:
    """What is not as expected within its time ends the scene, is kept, and makes it a failure."""
    scene = PlayedScene("Nothing happens", lambda check: None)
    with pytest.raises(SceneFailed):
        await scene.see("the refund", "REFUNDED", lambda: "PAID", within=0.05)
    assert not scene.ok
    assert (scene.checks[0].expected, scene.checks[0].observed) == ("REFUNDED", "PAID")


def test_a_scene_in_which_nothing_was_looked_at_is_no_success() -> None:
    """An empty scene proves nothing."""
    assert not PlayedScene("Empty", lambda check: None).ok
