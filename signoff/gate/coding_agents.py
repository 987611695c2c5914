"""Parse and answer the events of coding agents before tool calls.

Tool names are the same for all agents, so one checkpoint covers all: `Bash` is the shell, `mcp__server__tool` an MCP
server's tool. Agents run the tool when they do not understand an answer, so it has only documented fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Literal

from signoff.canonical import canonical_bytes, parse_arguments, parse_json
from signoff.errors import MalformedArguments

MAX_BYTES = 1024 * 1024
"""Limit for an event. The arguments themselves may have 256 KiB."""

_SHELLS = frozenset({"Bash", "PowerShell"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ToolCall:
    """`name` has any characters, as the agent shows it; `tool` is the action that people are asked about."""

    name: str
    arguments: dict[str, Any]
    session: str
    folder: str

    @property
    def tool(self) -> str:
        return re.sub(r"[^A-Za-z0-9_.:-]", "_", self.name)

    def matches(self, pattern: str) -> bool:
        """Either name counts: people copy the one that they see."""
        return any(re.fullmatch(pattern, each) for each in (self.name, self.tool))

    @property
    def digest(self) -> str:
        """Leave out a shell command's `description`: models phrase it differently each time."""
        arguments = dict(self.arguments)
        if self.tool in _SHELLS:
            arguments.pop("description", None)
        return sha256(canonical_bytes([self.session, self.folder, self.tool, arguments])).hexdigest()


@dataclass(frozen=True)
class Permission:
    """`none`: Signoff has no opinion, so the agent's own rules apply."""

    decision: Literal["allow", "deny", "none"]
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Name(StrEnum):
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
    """Codex has the same fields."""
    return ToolCall(
        _text(event, "tool_name"),
        _arguments(event.get("tool_input")),
        _text(event, "session_id"),
        _text(event, "cwd"),
    )


def _cursor_tool(event: dict[str, Any]) -> ToolCall:
    name = _text(event, "tool_name")
    return _cursor(event, "Bash" if name == "Shell" else name, event.get("tool_input"))


def _cursor_shell(event: dict[str, Any]) -> ToolCall:
    return _cursor(event, "Bash", {"command": _text(event, "command")})


def _cursor_mcp(event: dict[str, Any]) -> ToolCall:
    server = event.get("mcp_server_name")
    tool = _text(event, "tool_name")
    return _cursor(event, f"mcp__{server}__{tool}" if server else f"mcp__{tool}", event.get("tool_input"))


def _cursor(event: dict[str, Any], tool: str, arguments: Any) -> ToolCall:
    """`cwd` is empty in command line events."""
    roots = event.get("workspace_roots")
    folder = event.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "")
    session = _text(event, "conversation_id")
    return ToolCall(tool, _arguments(arguments), session, str(folder))


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
    return json.dumps(AGENTS[agent].answer(permission))
