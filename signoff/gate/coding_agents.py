"""The hooks of coding agents: what each agent says before it uses a tool, and the answer that it understands.

Tools have one name for all of them, so that one checkpoint covers all: `Bash` is the shell, `mcp__server__tool` a tool
of an MCP server. An agent takes only answers of its own form, and runs the tool when it does not understand one: so no
answer has a field that the agent's documentation does not name.
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

MOST_BYTES = 1024 * 1024
"""How much an agent may say. The arguments themselves may have 256 KiB."""

_SHELLS = frozenset({"Bash", "PowerShell"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ToolCall:
    """A tool that an agent is about to use, and where: the session and folder that it is in."""

    tool: str
    arguments: dict[str, Any]
    session: str
    folder: str

    @property
    def digest(self) -> str:
        """The same for the same call, in the same session and folder.

        A model words the `description` of a shell command anew each time, so that does not make it another command.
        """
        arguments = dict(self.arguments)
        if self.tool in _SHELLS:
            arguments.pop("description", None)
        return sha256(canonical_bytes([self.session, self.folder, self.tool, arguments])).hexdigest()


@dataclass(frozen=True)
class Permission:
    """What the agent is told. `none`: Signoff has nothing to say, so the agent goes by its own rules."""

    decision: Literal["allow", "deny", "none"]
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Name(StrEnum):
    """How an agent is named on the command line."""

    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"


@dataclass(frozen=True)
class CodingAgent:
    """One agent: its name for people, its answers, and whether an answer can carry changed arguments."""

    title: str
    answer: Callable[[Permission], dict[str, Any]]
    takes_changes: bool


def read_call(said: bytes) -> ToolCall:
    """The call that a hook is started for. Raises MalformedArguments for everything else."""
    event = parse_json(said.removeprefix(_BYTE_ORDER_MARK), MOST_BYTES)
    if not isinstance(event, dict):
        raise MalformedArguments("$", "must be an object")
    name = _text(event, "hook_event_name")
    if name not in _READERS:
        raise MalformedArguments("$.hook_event_name", f"must be one of {', '.join(_READERS)}, not {name}")
    return _READERS[name](event)


# --- what they say ---------------------------------------------------------------------------------------------


def _claude_code(event: dict[str, Any]) -> ToolCall:
    """Claude Code, and Codex, which says the same: `session_id`, `cwd`, `tool_name`, `tool_input`."""
    return ToolCall(
        _tool(_text(event, "tool_name")),
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
    """`cwd` is empty in the command line's events; the folder is the first of the workspace then."""
    roots = event.get("workspace_roots")
    folder = event.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "")
    session = _text(event, "conversation_id")
    return ToolCall(_tool(tool), _arguments(arguments), session, str(folder))


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
    """Cursor writes the arguments of MCP tools as JSON within the JSON."""
    found = parse_arguments(given) if isinstance(given, str) else given
    if not isinstance(found, dict):
        raise MalformedArguments("$.tool_input", "must be an object")
    return found


def _tool(name: str) -> str:
    """As the service takes names of tools."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", name)


# --- what they are told ----------------------------------------------------------------------------------------


def _to_claude_code(permission: Permission) -> dict[str, Any]:
    if permission.decision == "none":
        return {}
    told: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": permission.decision,
        "permissionDecisionReason": permission.reason,
    }
    if permission.arguments is not None:
        told["updatedInput"] = dict(permission.arguments)
    if permission.notes:
        told["additionalContext"] = "\n".join(permission.notes)
    return {"hookSpecificOutput": told}


def _to_codex(permission: Permission) -> dict[str, Any]:
    """Codex takes nothing but a denial from every version that has hooks; its own approval policy stays in force."""
    return _to_claude_code(permission) if permission.decision == "deny" else {}


def _to_cursor(permission: Permission) -> dict[str, Any]:
    """Cursor takes no output for a failure of the hook. An `allow` overrides none of its own rules."""
    if permission.decision != "deny":
        return {"permission": "allow"}
    return {"permission": "deny", "user_message": permission.reason, "agent_message": permission.reason}


AGENTS = {
    Name.CLAUDE: CodingAgent("Claude Code", _to_claude_code, takes_changes=True),
    Name.CODEX: CodingAgent("Codex", _to_codex, takes_changes=False),
    Name.CURSOR: CodingAgent("Cursor", _to_cursor, takes_changes=False),
}


def answer_text(agent: Name, permission: Permission) -> str:
    """The answer as it is printed."""
    return json.dumps(AGENTS[agent].answer(permission))
