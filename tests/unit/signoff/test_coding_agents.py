"""Hooks of coding agents, apart from the service: what is read, how one call is known again, what is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import MalformedArguments, SignoffError
from signoff.gate.coding_agents import Name, Permission, answer_text, read_call
from signoff.gate.hook_settings import HookSettings
from signoff.gate.unasked_calls import PRIVATE, UNASKED
from tests import hook_events as events
from tests.hook_events import hook_input

PUSH = "git push --force"


@pytest.mark.parametrize(
    ("event", "tool", "arguments", "folder"),
    [
        (events.CLAUDE_BASH, "Bash", events.CLAUDE_BASH["tool_input"], "/srv/ada/shop"),
        (events.CLAUDE_MCP, "mcp__github__create_release", {"tag": "v7", "draft": False}, "/srv/ada/shop"),
        (events.CODEX_BASH, "Bash", {"command": PUSH}, "/srv/ada/shop"),
        (events.CODEX_PATCH, "apply_patch", events.CODEX_PATCH["tool_input"], "/srv/ada/shop"),
        (events.CURSOR_SHELL, "Bash", {"command": PUSH}, "/srv/ada/shop"),
        (
            events.CURSOR_MCP | {"tool_name": "create_release"},
            "mcp__github__create_release",
            {"tag": "v7"},
            "/srv/ada/shop",
        ),
        (events.CURSOR_WRITE, "Write", events.CURSOR_WRITE["tool_input"], "/srv/ada/shop"),
        (events.CURSOR_TOOL_SHELL, "Bash", events.CURSOR_TOOL_SHELL["tool_input"], "/srv/ada/shop/api"),
    ],
    ids=lambda value: value.get("hook_event_name") if isinstance(value, dict) else None,
)
def test_a_call_is_read_from_each_agents_event(
    event: dict[str, Any], tool: str, arguments: dict[str, Any], folder: str
) -> None:
    """One shell and one form of MCP names for all agents; a byte order mark (Cursor on Windows) is no error."""
    for said in (hook_input(event), b"\xef\xbb\xbf" + hook_input(event)):
        call = read_call(said)
        assert (call.tool, call.arguments, call.folder) == (tool, arguments, folder)
        assert call.session


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "is not JSON"),
        (b"[]", "must be an object"),
        (hook_input(events.CLAUDE_BASH, hook_event_name="PostToolUse"), "not PostToolUse"),
        (hook_input(events.CLAUDE_BASH, tool_input=["rm"]), "$.tool_input"),
        (hook_input(events.CLAUDE_BASH, session_id=None), "$.session_id: must be a text"),
        (hook_input(events.CURSOR_MCP, tool_input="[1]"), "must be an object"),
        (b'{"hook_event_name": "PreToolUse", "cwd": "/", "cwd": "/tmp"}', "cwd"),
        (hook_input(events.CLAUDE_BASH, cwd="shop"), "$.cwd: must be an absolute path"),
        (hook_input(events.CURSOR_SHELL, workspace_roots=[]), "$.cwd: must be an absolute path"),
        (hook_input(events.CLAUDE_BASH, {"signoff_folder": "/srv"}), "$.tool_input.signoff_folder"),
    ],
)
def test_what_is_no_call_is_refused(said: bytes, words: str) -> None:
    """Whatever could be read in two ways, or not at all, names what is wrong."""
    with pytest.raises(MalformedArguments, match=re.escape(words)):
        read_call(said)


def test_the_same_call_is_known_again() -> None:
    """Session, folder, tool and input make a call; its id, and how a model describes a command, do not."""
    key = read_call(hook_input(events.CLAUDE_BASH)).digest
    again = hook_input(
        events.CLAUDE_BASH, {"description": "Publish"}, tool_use_id="toolu_02", transcript_path="/x"
    )
    assert read_call(again).digest == key
    for name in ("session_id", "cwd", "tool_name"):
        changed = events.CLAUDE_BASH | {name: "/other"}
        assert read_call(hook_input(changed)).digest != key
    for given in ({"command": "git push"}, {"timeout": 1}):
        assert read_call(hook_input(events.CLAUDE_BASH, given)).digest != key
    one, other = (hook_input(events.CLAUDE_MCP, {"description": each}) for each in ("one", "other"))
    assert read_call(one).digest != read_call(other).digest


def test_the_folder_is_where_its_path_leads(tmp_path: Path) -> None:
    """People see the directory itself; a link that is turned to another one is another place."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "production").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "shop")
    said = hook_input(events.CLAUDE_BASH, cwd=str(link))
    call = read_call(said)
    assert (call.folder, call.is_where_it_was) == (str(tmp_path / "shop"), True)
    assert call.question == events.CLAUDE_BASH["tool_input"] | {"signoff_folder": str(tmp_path / "shop")}
    link.unlink()
    link.symlink_to(tmp_path / "production")
    assert not call.is_where_it_was
    assert read_call(said).digest != call.digest


def _mcp(server: str, tool: str, **changes: Any) -> bytes:
    return hook_input(events.CURSOR_MCP, mcp_server_name=server, tool_name=tool, **changes)


def _claude_mcp(server: str, tool: str) -> bytes:
    name = f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__{tool}"
    return hook_input(events.CLAUDE_MCP, tool_name=name, mcp_server={"name": server})


@pytest.mark.parametrize("said", [_mcp, _claude_mcp])
def test_different_tools_never_have_one_name(said: Callable[[str, str], bytes]) -> None:
    """Servers and tools whose names look alike are told apart; a pattern for the shown name fits each of them."""
    pairs = [
        *(("my server", "x"), ("my_server", "x"), ("my.server", "x"), ("my-server", "x"), ("MY_server", "x")),
        *(("a", "b__c"), ("a__b", "c"), ("a_", "b"), ("a", "_b"), ("a__b__c", "d"), ("a", "b__c__d")),
        *(("ｍy_server", "x"), ("my_server\u200b", "x"), ("s" * 70, "t" * 70), ("s" * 70, "t" * 71)),
    ]
    names = [read_call(said(*each)).tool for each in pairs]
    assert len(set(names)) == len(pairs)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", each) for each in names)
    assert read_call(said("my server", "x")).tool.startswith("mcp__my_server__x.")
    assert read_call(said("my_server", "x")).tool == "mcp__my_server__x"
    assert read_call(
        said("my_server", read_call(said("my server", "x")).tool[len("mcp__my_server__") :])
    ).tool not in (names)


def test_a_tool_without_a_server_is_not_one_of_a_server() -> None:
    """Cursor need not name the server, and any tool may have a name that no other agent would allow."""
    assert read_call(_mcp("", "a__b")).tool != read_call(_mcp("a", "b")).tool == "mcp__a__b"
    assert read_call(_mcp("", "create_release")).tool == "mcp__create_release"
    plain = [
        read_call(hook_input(events.CURSOR_WRITE, tool_name=each)).tool for each in ("my tool", "my_tool")
    ]
    assert (plain[0] != plain[1], plain[1]) == (True, "my_tool")


def test_each_agent_is_answered_in_its_own_form() -> None:
    """Codex gets only denials, Cursor always an answer: with anything else the hook counts as failed."""
    deny = Permission("deny", "no")
    allow = Permission("allow", "yes", {"command": "ls"}, ("Once only",))
    reason = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    denied = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **reason}}
    allowed = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "yes",
        "updatedInput": {"command": "ls"},
        "additionalContext": "Once only",
    }
    expected = {
        Name.CLAUDE: (denied, {"hookSpecificOutput": allowed}, {}),
        Name.CODEX: (denied, {}, {}),
        Name.CURSOR: (
            {"permission": "deny", "user_message": "no", "agent_message": "no"},
            {"permission": "allow"},
            {"permission": "allow"},
        ),
    }
    for agent, answers in expected.items():
        given = tuple(json.loads(answer_text(agent, each)) for each in (deny, allow, Permission("none")))
        assert given == answers


# --- settings --------------------------------------------------------------------------------------------------

OTHERS: dict[Name, dict[str, Any]] = {
    Name.CLAUDE: {
        "permissions": {"deny": ["Read(.env)"]},
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "audit"}]},
                {
                    "matcher": "Write",
                    "hooks": [
                        {"type": "command", "command": "signoff hook claude --timeout 5s"},
                        {"type": "command", "command": "signoff hooked"},
                    ],
                },
            ],
            "Stop": [{"hooks": [{"type": "command", "command": "chime"}]}],
        },
    },
    Name.CODEX: {
        "description": "Ours",
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]},
    },
    Name.CURSOR: {"version": 1, "hooks": {"beforeShellExecution": [{"command": "audit"}], "stop": []}},
}


@pytest.mark.parametrize("agent", list(Name))
def test_the_hook_is_added_once_and_removed_without_a_trace(
    agent: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else is in the file stays, a second time changes nothing, and no key is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNOFF_KEY", "signoff_secret")
    settings = HookSettings(agent, None, 600, user=False)
    settings.path.parent.mkdir()
    settings.path.write_text(json.dumps(OTHERS[agent]))
    settings.path.chmod(0o600)
    shown = json.loads(next(settings.printed()))
    assert json.loads(settings.path.read_text()) == OTHERS[agent]
    first, *_, last = settings.install()
    written = settings.path.read_text()
    assert json.loads(written) == shown
    assert (written.count("signoff hook "), settings.path.stat().st_mode & 0o777) == (
        3 if agent is Name.CURSOR else 1,
        0o600,
    )
    assert ("now has the hook" in first, "SIGNOFF_KEY_FILE" in last) == (True, True)
    assert "has the hook already" in next(settings.install())
    assert settings.path.read_text() == written
    assert "signoff_secret" not in written
    assert "no longer has" in next(settings.uninstall())
    left = json.loads(settings.path.read_text())
    expected = json.loads(json.dumps(OTHERS[agent]))
    if agent is Name.CLAUDE:
        expected["hooks"]["PreToolUse"][1]["hooks"].pop(0)
    assert left == expected


def test_what_is_written_is_what_each_agent_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook gets every call, a failed hook denies, and the agent waits longer than the hook does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    failed = "|| { echo 'Signoff: the hook failed, so this call is not approved'"

    def written(agent: Name, match: str | None = None, user: bool = False) -> Any:
        settings = HookSettings(agent, match, 600, user)
        list(settings.install())
        return json.loads(settings.path.read_text())["hooks"]

    for match, option in (("Bash|mcp__.*", "--match 'Bash|mcp__.*' "), (None, "")):
        (group,) = written(Name.CLAUDE, match)["PreToolUse"]
        (hook,) = group["hooks"]
        assert hook.pop("command").startswith(f"signoff hook claude {option}--timeout 600s {failed}")
        assert group == {"matcher": ".*", "hooks": [hook]}
        assert hook == {"type": "command", "timeout": 630, "onFailure": "block"}
    (group,) = written(Name.CODEX, user=True)["PreToolUse"]
    assert (tmp_path / "codex" / "hooks.json").exists()
    assert group["hooks"][0].keys() == {"type", "command", "timeout"}
    entries = written(Name.CURSOR)
    assert entries.keys() == {"beforeShellExecution", "beforeMCPExecution", "preToolUse"}
    for event, option in (("beforeShellExecution", ""), ("preToolUse", "--other-tools ")):
        (entry,) = entries[event]
        assert entry.pop("command").startswith(f"signoff hook cursor {option}--timeout 600s {failed}")
        assert entry == {"timeout": 630, "failClosed": True}


@pytest.mark.parametrize("agent", list(Name))
def test_installing_says_what_is_covered(
    agent: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tool that is not asked about is named, and what no hook sees; a pattern leaves out the rest, and says so."""
    monkeypatch.chdir(tmp_path)
    said = "\n".join(HookSettings(agent, None, 600, user=False).install())
    tools = UNASKED[agent]
    assert [each for each in (*tools.read, *tools.talk, *tools.edit, *PRIVATE) if each not in said] == []
    assert re.search(
        r"^Asked: shell commands, MCP tools, web access, .* every tool that is not named", said, re.MULTILINE
    )
    assert "what a script does that a command starts" in said
    assert "Not asked: every other tool" in "\n".join(HookSettings(agent, "Bash", 600, user=False).install())


@pytest.mark.parametrize("text", ["// mine\n{}", "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}'])
def test_settings_that_are_not_understood_are_left_alone(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the file, and not a byte of it changes."""
    monkeypatch.chdir(tmp_path)
    settings = HookSettings(Name.CLAUDE, "Bash", 600, user=False)
    settings.path.parent.mkdir()
    settings.path.write_text(text)
    with pytest.raises(SignoffError, match=re.escape(str(settings.path))):
        list(settings.install())
    assert settings.path.read_text() == text
