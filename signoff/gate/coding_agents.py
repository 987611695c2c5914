"""Parse and answer the events of coding agents before tool calls.

Tool names are the same for all agents, so one checkpoint covers all: `Bash` is the shell, `mcp__server__tool` an MCP
server's tool. Agents run the tool when they do not understand an answer, so it has only documented fields.

Most calls need nobody, and each starts this module anew: it imports nothing that takes long.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from signoff.canonical import canonical_bytes, parse_arguments, parse_json
from signoff.errors import MalformedArguments
from signoff.values import ACTION_NAME, FOLDER

MAX_BYTES = 1024 * 1024
"""Limit for an event. The arguments themselves may have 256 KiB."""

SHELLS = ("Bash", "PowerShell", "Monitor")
"""Tools that run commands; `Monitor` is Claude Code's for commands in the background."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ToolCall:
    """`name` has any characters, as the agent shows it; `tool` is the action that people are asked about."""

    name: str
    tool: str
    arguments: dict[str, Any]
    session: str
    cwd: str
    folder: str
    """`cwd` without symbolic links."""
    roots: tuple[str, ...] = ()
    """The folders of the project, if the event names them."""

    def matches(self, pattern: str) -> bool:
        """Either name counts: people copy the one that they see."""
        return any(re.fullmatch(pattern, each) for each in (self.name, self.tool))

    @property
    def question(self) -> dict[str, Any]:
        """What people approve: the folder is one of the arguments, so grants and rejections hold it, too."""
        return self.arguments | {FOLDER: self.folder}

    @property
    def digest(self) -> str:
        return sha256(
            canonical_bytes([self.session, self.tool, self.without_phrasing(self.question)])
        ).hexdigest()

    def without_phrasing(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out a shell command's `description`: models phrase it differently each time."""
        left_out = ("description",) if self.tool in SHELLS else ()
        return {name: value for name, value in arguments.items() if name not in left_out}

    @property
    def is_where_it_was(self) -> bool:
        """False if the folder's path leads elsewhere by now."""
        return os.path.realpath(self.cwd) == self.folder


@dataclass(frozen=True)
class Permission:
    """`none`: Signoff has no opinion, so the agent's own rules apply."""

    decision: Literal["allow", "deny", "none"]
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Name(StrEnum):
    """A coding agent whose hook events the gate can read and answer."""

    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"


@dataclass(frozen=True)
class CodingAgent:
    """`takes_changes`: whether an answer can carry changed arguments."""

    title: str
    answer: Callable[[Permission], dict[str, Any]]
    takes_changes: bool


def read_call(said: bytes) -> ToolCall:
    """Raises MalformedArguments."""
    event = parse_json(said.removeprefix(_BYTE_ORDER_MARK), MAX_BYTES)
    if not isinstance(event, dict):
        raise MalformedArguments("$", "must be an object")
    name = _text(event, "hook_event_name")
    if name not in _READERS:
        raise MalformedArguments("$.hook_event_name", f"must be one of {', '.join(_READERS)}, not {name}")
    return _READERS[name](event)


# --- events ---------------------------------------------------------------------------------------------------


def _claude_code(event: dict[str, Any]) -> ToolCall:
    """Codex has the same fields, except `mcp_server`."""
    name, server = _text(event, "tool_name"), event.get("mcp_server")
    action = _action(name)
    if isinstance(server, dict):
        server_name = _text(server, "name")
        tool = name.removeprefix(f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', server_name)}__")
        action = _mcp_action(name, server_name, tool)
    session = _text(event, "session_id")
    return _call(name, action, event.get("tool_input"), session, event.get("cwd"))


def _cursor_tool(event: dict[str, Any]) -> ToolCall:
    name = _text(event, "tool_name")
    return _cursor(event, name, "Bash" if name == "Shell" else _action(name), event.get("tool_input"))


def _cursor_shell(event: dict[str, Any]) -> ToolCall:
    return _cursor(event, "Bash", "Bash", {"command": _text(event, "command")})


def _cursor_mcp(event: dict[str, Any]) -> ToolCall:
    server, tool = event.get("mcp_server_name") or "", _text(event, "tool_name")
    name = f"mcp__{server}__{tool}" if server else f"mcp__{tool}"
    return _cursor(event, name, _mcp_action(name, server, tool), event.get("tool_input"))


def _cursor(event: dict[str, Any], name: str, tool: str, arguments: Any) -> ToolCall:
    """`cwd` is empty in command line events."""
    named = event.get("workspace_roots")
    roots = tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()
    cwd = event.get("cwd") or (roots[0] if roots else None)
    return _call(name, tool, arguments, _text(event, "conversation_id"), cwd, roots)


def _call(
    name: str, tool: str, arguments: Any, session: str, cwd: Any, roots: tuple[str, ...] = ()
) -> ToolCall:
    if not isinstance(cwd, str) or not Path(cwd).is_absolute() or "\0" in cwd:
        raise MalformedArguments("$.cwd", "must be an absolute path: an approval is for one directory")
    given = _arguments(arguments)
    if FOLDER in given:
        raise MalformedArguments(f"$.tool_input.{FOLDER}", "is a name that Signoff itself uses")
    return ToolCall(name, tool, given, session, cwd, os.path.realpath(cwd), roots)


def _mcp_action(name: str, server: str, tool: str) -> str:
    """`a` with `b__c` is not `a__b` with `c`, nor is `my server` `my_server`."""
    found, _, rest = name.removeprefix("mcp__").partition("__")
    return _action(name, server, tool, certain=(found, rest) == ((server, tool) if server else (tool, "")))


def _action(name: str, *parts: str, certain: bool = True) -> str:
    """The name for policy. It ends in a digest if it could stand for another tool, too.

    A pattern for the beginning of the name that the agent shows fits it nevertheless.
    """
    if certain and ACTION_NAME.problem(name) is None and not _MARKED.search(name):
        return name
    digest = sha256(canonical_bytes([name, *parts])).hexdigest()[:32]
    allowed = re.sub(r"[^A-Za-z0-9_.:-]", "_", name)
    first = "" if allowed[0].isalpha() else "_"
    return f"{first}{allowed}"[: ACTION_NAME.most - 33] + f".{digest}"


_MARKED = re.compile(r"\.[0-9a-f]{32}\Z")

_READERS: dict[str, Callable[[dict[str, Any]], ToolCall]] = {
    "PreToolUse": _claude_code,
    "beforeShellExecution": _cursor_shell,
    "beforeMCPExecution": _cursor_mcp,
    "preToolUse": _cursor_tool,
}


def _text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedArguments(f"$.{name}", "must be a text")
    return value


def _arguments(given: Any) -> dict[str, Any]:
    """Cursor nests MCP tools' arguments as JSON within JSON."""
    found = parse_arguments(given) if isinstance(given, str) else given
    if not isinstance(found, dict):
        raise MalformedArguments("$.tool_input", "must be an object")
    return found


# --- answers --------------------------------------------------------------------------------------------------


def _to_claude_code(permission: Permission) -> dict[str, Any]:
    if permission.decision == "none":
        return {}
    hook_output: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": permission.decision,
        "permissionDecisionReason": permission.reason,
    }
    if permission.arguments is not None:
        hook_output["updatedInput"] = dict(permission.arguments)
    if permission.notes:
        hook_output["additionalContext"] = "\n".join(permission.notes)
    return {"hookSpecificOutput": hook_output}


def _to_codex(permission: Permission) -> dict[str, Any]:
    """All Codex versions with hooks accept denials. Codex's own policy still applies."""
    return _to_claude_code(permission) if permission.decision == "deny" else {}


def _to_cursor(permission: Permission) -> dict[str, Any]:
    """Cursor takes missing output for a failed hook. An `allow` does not override its own rules."""
    if permission.decision != "deny":
        return {"permission": "allow"}
    return {"permission": "deny", "user_message": permission.reason, "agent_message": permission.reason}


AGENTS = {
    Name.CLAUDE: CodingAgent("Claude Code", _to_claude_code, takes_changes=True),
    Name.CODEX: CodingAgent("Codex", _to_codex, takes_changes=False),
    Name.CURSOR: CodingAgent("Cursor", _to_cursor, takes_changes=False),
}


def answer_text(agent: Name, permission: Permission) -> str:
    """Return the JSON with which a hook answers this coding agent."""
    return json.dumps(AGENTS[agent].answer(permission))
