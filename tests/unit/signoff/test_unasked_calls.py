"""Which calls of coding agents need nobody, and whatever tries to look like one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signoff.gate.coding_agents import Name, read_call
from signoff.gate.unasked_calls import PRIVATE, UNASKED, is_unasked
from tests import hook_events as events
from tests.hook_events import hook_input

ROOT = Path(__file__).parents[3]
EVENTS: dict[Name, dict[str, Any]] = {
    Name.CLAUDE: events.CLAUDE_BASH,
    Name.CODEX: events.CODEX_BASH,
    Name.CURSOR: events.CURSOR_WRITE,
}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder; beside it another one, which a link in the project leads to."""
    for name in ("home", "shop/src", "shop/.git/hooks", "shop/.claude", "production"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "SIGNOFF_CHECKPOINTS",
        "SIGNOFF_KEY_FILE",
    ):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "shop"
    (folder / "a.txt").write_text("one\n")
    (folder / "elsewhere").symlink_to(tmp_path / "production")
    (folder / "settings").symlink_to(folder / ".claude" / "settings.json")
    (folder / "nowhere").symlink_to(tmp_path / "production" / "new")
    (tmp_path / "production" / "secret").write_text("two\n")
    (folder / "second").hardlink_to(tmp_path / "production" / "secret")
    os.mkfifo(folder / "pipe")
    return folder


def unasked(agent: Name, tool: str, given: dict[str, Any], folder: Path, **changes: Any) -> bool:
    place = {"workspace_roots": [str(folder)]} if agent is Name.CURSOR else {"cwd": str(folder)}
    call = read_call(hook_input(EVENTS[agent] | place, tool_name=tool, tool_input=given, **changes))
    return is_unasked(agent, call)


@pytest.mark.parametrize("agent", list(Name))
def test_reading_and_talking_need_nobody(agent: Name, shop: Path) -> None:
    """Each tool of the documented lists goes ahead, and is in the documentation."""
    page = (ROOT / "docs" / "coding-agents.md").read_text()
    tools = UNASKED[agent]
    for tool in (*tools.read, *tools.talk):
        assert unasked(agent, tool, {"anything": [1]}, shop)
    assert [
        each for each in (*tools.read, *tools.talk, *tools.edit, *PRIVATE) if f"`{each}`" not in page
    ] == []


@pytest.mark.parametrize("agent", list(Name))
@pytest.mark.parametrize(
    "tool",
    [
        "Bash",
        "PowerShell",
        "Monitor",
        "Shell",
        "REPL",
        "WebFetch",
        "WebSearch",
        "Agent",
        "Task",
        "Skill",
        "SlashCommand",
        "KillShell",
        "Artifact",
        "RemoteTrigger",
        "CronCreate",
        "LSP",
        "ReadMcpResourceTool",
        "EnterWorktree",
        "exec_command",
        "spawn_agent",
        "mcp__files__Read",
        "mcp__Read",
        "MCP:Read",
        "read",
        "READ",
        "Read ",
        "Rеad",
        "Read\u200b",
        "Ｒead",
        "ReadAll",
        "XRead",
        "Bash|Read",
        "bash",
        "NewTool",
        "Write2",
    ],
)
def test_what_it_does_not_know_is_asked(agent: Name, tool: str, shop: Path) -> None:
    """Shells, what sends data out, what starts others, MCP tools, and names that only look like a known one."""
    assert not unasked(agent, tool, {"file_path": str(shop / "a.txt")}, shop)


def test_the_tool_of_a_server_is_never_a_known_one(shop: Path) -> None:
    """Whatever name a server's tool has."""
    assert not unasked(Name.CLAUDE, "Read", {}, shop, mcp_server={"name": "files"})
    said = hook_input(events.CURSOR_MCP, tool_name="Read", mcp_server_name="")
    assert not is_unasked(Name.CURSOR, read_call(said))


def test_cursors_event_for_all_tools_leaves_those_with_their_own(shop: Path) -> None:
    """Only the command that `--install` writes for this event says so; without it, and for other agents, they ask."""
    for tool in ("Shell", "MCP:create_release"):
        said = hook_input(events.CURSOR_WRITE, tool_name=tool, tool_input={"command": "ls"})
        assert is_unasked(Name.CURSOR, read_call(said), others=True)
        assert is_unasked(Name.CURSOR, read_call(said), match=".*", others=True)
        assert not is_unasked(Name.CURSOR, read_call(said), match=".*")
        assert not is_unasked(Name.CURSOR, read_call(said))
        assert not is_unasked(Name.CLAUDE, read_call(said), others=True)
    shell = read_call(hook_input(events.CURSOR_SHELL))
    assert not is_unasked(Name.CURSOR, shell, others=True)


EDITS: list[tuple[Name, str, str, dict[str, Any]]] = [
    (Name.CLAUDE, "Write", "file_path", {"content": "x"}),
    (Name.CLAUDE, "Edit", "file_path", {"old_string": "a", "new_string": "b", "replace_all": True}),
    (Name.CLAUDE, "MultiEdit", "file_path", {"edits": [{"old_string": "a", "new_string": "b"}]}),
    (
        Name.CLAUDE,
        "NotebookEdit",
        "notebook_path",
        {"new_source": "x", "cell_id": "1", "edit_mode": "insert"},
    ),
    (Name.CURSOR, "StrReplace", "path", {"old_string": "a", "new_string": "b"}),
    (Name.CURSOR, "Delete", "path", {}),
]


def patch(*lines: str) -> dict[str, str]:
    return {"command": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def edited(path: str, folder: Path) -> set[bool]:
    """Whether each way to edit this file needs nobody."""
    direct = {unasked(agent, tool, {key: path, **content}, folder) for agent, tool, key, content in EDITS}
    headers = (
        [f"*** Update File: {path}", "@@", "-a", "+b"],
        [f"*** Add File: {path}", "+x"],
        [f"*** Delete File: {path}"],
    )
    moved = ["*** Update File: a.txt", f"*** Move to: {path}", "@@", "-a", "+b"]
    return direct | {unasked(Name.CODEX, "apply_patch", patch(*each), folder) for each in (*headers, moved)}


@pytest.mark.parametrize(
    "path", ["a.txt", "src/new/b.py", "src/../a.txt", "{shop}/src/b.py", "routes/$id.tsx", "ä.txt"]
)
def test_edits_of_the_project_need_nobody(path: str, shop: Path) -> None:
    """A file in the project's folder, there or not, named from the folder or from the root."""
    assert edited(path.format(shop=shop), shop) == {True}


@pytest.mark.parametrize(
    "path",
    [
        *("../production/secret", "{shop}/../production/x", "/etc/passwd", "/", ".", "{shop}", "src/../../x"),
        "{shop}2/x",
        *("elsewhere/secret", "elsewhere/new", "{shop}/elsewhere/../shop/a.txt", "nowhere", "second", "pipe", "src"),
        *("settings", ".git/hooks/pre-commit", ".git", ".GIT/config", "src/.git", "src/.git/config"),
        "src/x.git/config",
        *(".claude/settings.json", ".Claude/x", ".codex/hooks.json", ".cursor/hooks.json", ".CURSOR/x", ".mcp.json"),
        *(".vscode/tasks.json", "checkpoints.toml", "Checkpoints.TOML", "src/checkpoints.toml", ".signoff/data/x"),
        *(".g\u200cit/config", ".git\u200b/config", "．git/config", ".git./config", ".git::$INDEX/config"),
        "GIT~1/config",
        *("HEAD", "src/HEAD", "~/.bashrc", "~root/x", "$HOME/.bashrc", "%HOME%/x", "file:///etc/passwd", "C:/x"),
        *("vscode-remote://x/y", "..\\..\\x", " a.txt", "a.txt ", "a\rb", "\u212a.txt", ""),
    ],
)  # fmt: skip
def test_every_other_edit_is_asked(path: str, shop: Path) -> None:
    """Beyond the folder, through links, where asking is decided, and names that others may read in another way."""
    name = path.format(shop=shop)
    assert edited(name, shop) == {False}


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Write", {}),
        ("Write", {"content": "x"}),
        ("Write", {"file_path": ["a.txt"], "content": "x"}),
        ("Write", {"file_path": "a.txt", "path": "/etc/passwd"}),
        ("Write", {"file_path": "a.txt", "target": "/etc/passwd"}),
        ("Write", {"file_path": "a.txt", "content": {"path": "/etc/passwd"}}),
        (
            "MultiEdit",
            {
                "file_path": "a.txt",
                "edits": [{"file_path": "/etc/passwd", "old_string": "a", "new_string": "b"}],
            },
        ),
        ("MultiEdit", {"edits": [{"file_path": "a.txt"}, {"file_path": "../x"}]}),
        ("MultiEdit", {"file_path": "a.txt", "edits": [{"uri": "x"}]}),
        ("MultiEdit", {"file_path": "a.txt", "edits": ["/etc/passwd"]}),
        ("NotebookEdit", {"notebook_path": "a.ipynb", "file_path": "/etc/x"}),
    ],
)
def test_an_edit_that_may_name_another_file_is_asked(tool: str, given: dict[str, Any], shop: Path) -> None:
    """Every path counts, at any depth, and so does a field that is not known."""
    assert not unasked(Name.CLAUDE, tool, given, shop)


@pytest.mark.parametrize(
    "given",
    [
        patch(),
        patch("*** Update File: a.txt", "@@", "-a", "+b", "*** Delete File: ../x"),
        patch("*** Update File: a.txt", "*** Move to: /etc/x", "@@", "-a", "+b"),
        patch("*** Update File: a.txt", "@@", "-a", "+b", " *** Delete File: /etc/x"),
        patch("*** Update File: a.txt", "@@", "-a", "+b", "\u00a0***  Delete File: /etc/x"),
        patch("*** Rename File: /etc/x", "*** Add File: a.txt", "+x"),
        patch("***Add File: /etc/x", "*** Add File: a.txt", "+x"),
        patch("*** Environment ID: remote", "*** Add File: a.txt", "+x"),
        patch("*** Add File: a.txt\r", "+x"),
        patch("*** Add File: a.txt", "+x", "*** End Patch", "*** Begin Patch", "*** Add File: b.txt", "+x"),
        patch("*** Add File: a.txt", "+x") | {"workdir": "/etc"},
        {
            "command": "cd /etc && apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\nEOF"
        },
        {"input": "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"},
        {"command": ["*** Begin Patch", "*** Add File: a.txt", "+x", "*** End Patch"]},
    ],
)
def test_a_patch_that_may_touch_another_file_is_asked(given: dict[str, Any], shop: Path) -> None:
    """Each header counts, and a line that might be read as one is doubt."""
    assert not unasked(Name.CODEX, "apply_patch", given, shop)
    added = patch("*** Add File: a.txt", "+*** Delete File: /etc/x", "+ *** x")
    assert unasked(Name.CODEX, "apply_patch", added, shop)


def test_the_project_is_where_the_agent_was_started(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going elsewhere makes no other project, and neither a home nor what contains one is a project at all."""
    production = shop.parent / "production"
    given = {"file_path": "x", "content": "y"}
    assert unasked(Name.CLAUDE, "Write", given, production)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(shop))
    assert not unasked(Name.CLAUDE, "Write", given, production)
    assert unasked(Name.CLAUDE, "Write", given | {"file_path": str(shop / "x")}, production)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", ".")
    assert not unasked(Name.CLAUDE, "Write", given, shop)
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    for folder in (shop.parent / "home", shop.parent, Path("/")):
        assert not unasked(Name.CLAUDE, "Write", given, folder)
    said = hook_input(events.CURSOR_WRITE, workspace_roots=[str(shop)], cwd=str(production), tool_input=given)
    assert not is_unasked(Name.CURSOR, read_call(said))


def test_nobody_edits_the_hook_itself_unasked(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program, what it imports, programs found before it, and files that its settings name."""
    given = {"content": "x"}
    assert unasked(Name.CLAUDE, "Write", given | {"file_path": "bin/signoff"}, shop)
    monkeypatch.setenv("PATH", f"{shop / 'bin'}:/usr/bin")
    monkeypatch.setenv("SIGNOFF_KEY_FILE", str(shop / "key"))
    monkeypatch.setenv("SIGNOFF_CHECKPOINTS", str(shop / "policy.toml"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(shop / "claude"))
    monkeypatch.setattr(sys, "prefix", str(shop / ".venv"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(shop / "lib"), str(shop.parent)])
    for path in (
        "bin/signoff",
        "key",
        "policy.toml",
        "claude/settings.json",
        ".venv/lib/x.py",
        "lib/json.py",
        "LIB/x.py",
    ):
        assert not unasked(Name.CLAUDE, "Write", given | {"file_path": path}, shop), path
    assert unasked(Name.CLAUDE, "Write", given | {"file_path": "bin/sub/x"}, shop)


CALLS: list[tuple[str, dict[str, Any], bool]] = [
    ("Read", {"file_path": "/etc/hosts"}, False),
    ("Write", {"file_path": "a.txt", "content": "x"}, False),
    ("Write", {"file_path": "../x", "content": "x"}, True),
    ("Bash", {"command": "ls"}, True),
    ("PowerShell", {"command": "ls"}, True),
    ("Monitor", {"command": "ls"}, True),
    ("WebFetch", {"url": "https://example.com"}, True),
    ("mcp__github__list", {}, True),
]


@pytest.mark.parametrize(("start", "calls"), [("signoff.gate", CALLS), ("slackbot.cli", CALLS[1:4])])
def test_the_program_lets_through_and_asks(
    start: str, calls: list[tuple[str, dict[str, Any], bool]], shop: Path
) -> None:
    """Of either distribution: what needs nobody needs no service, and all else is denied without one."""
    settings = {"SIGNOFF_URL": "http://127.0.0.1:9", "SIGNOFF_KEY": "signoff_x", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", f"from {start} import main; main()", "hook", "claude", "--timeout", "1s"]
    given = [
        hook_input(events.CLAUDE_BASH, tool_name=each[0], tool_input=each[1], cwd=str(shop)) for each in calls
    ]
    started = []
    for number, said in enumerate(given):
        (shop.parent / f"call-{number}").write_bytes(said)
        with (shop.parent / f"call-{number}").open() as stdin:
            run = subprocess.Popen(
                words, stdin=stdin, stdout=subprocess.PIPE, env=os.environ | settings, cwd=shop.parent
            )
        started.append(run)
    for run, (tool, _, asked) in zip(started, calls, strict=True):
        answer = json.loads(run.communicate(timeout=60)[0])
        assert ("hookSpecificOutput" in answer, answer != {}) == (asked, asked), tool
