"""Events of coding agents before they use a tool, with every documented field."""

from __future__ import annotations

import json
from typing import Any

CLAUDE_BASH: dict[str, Any] = {
    "session_id": "5b0c9a4e-claude",
    "prompt_id": "0b8f2a36-5f3e-4a0f-9f6e-1d8a4f1d2c10",
    "transcript_path": "/srv/ada/.claude/projects/-srv-ada-shop/5b0c9a4e.jsonl",
    "cwd": "/srv/ada/shop",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {
        "command": "git push --force",
        "description": "Push the branch",
        "timeout": 120000,
        "run_in_background": False,
    },
    "tool_use_id": "toolu_01A",
}
CLAUDE_MCP: dict[str, Any] = CLAUDE_BASH | {
    "tool_name": "mcp__github__create_release",
    "tool_input": {"tag": "v7", "draft": False},
    "mcp_server": {"name": "github", "source": "user"},
}
CODEX_BASH: dict[str, Any] = {
    "session_id": "0199a-codex",
    "turn_id": "turn-4",
    "transcript_path": None,
    "cwd": "/srv/ada/shop",
    "model": "gpt-5.2-codex",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "git push --force"},
    "tool_use_id": "call_7",
}
CODEX_PATCH: dict[str, Any] = CODEX_BASH | {
    "tool_name": "apply_patch",
    "tool_input": {"command": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n"},
}
_CURSOR: dict[str, Any] = {
    "conversation_id": "668320d2-cursor",
    "generation_id": "490b90b7-a2ce-4c2c-bb76-cb77b125df2f",
    "model": "default",
    "cursor_version": "2026.09.26-dd393fe",
    "workspace_roots": ["/srv/ada/shop"],
    "user_email": "ada@example.com",
    "transcript_path": None,
}
CURSOR_SHELL: dict[str, Any] = _CURSOR | {
    "hook_event_name": "beforeShellExecution",
    "command": "git push --force",
    "cwd": "",
    "sandbox": False,
}
CURSOR_MCP: dict[str, Any] = _CURSOR | {
    "hook_event_name": "beforeMCPExecution",
    "tool_name": "create release",
    "tool_input": '{"tag": "v7"}',
    "mcp_server_name": "github",
    "command": "npx -y github-mcp",
}
CURSOR_WRITE: dict[str, Any] = _CURSOR | {
    "hook_event_name": "preToolUse",
    "tool_name": "Write",
    "tool_input": {"file_path": "/srv/ada/shop/a.txt", "content": "hello\n"},
    "tool_use_id": "call-5\nfc_1",
}
CURSOR_TOOL_SHELL: dict[str, Any] = _CURSOR | {
    "hook_event_name": "preToolUse",
    "tool_name": "Shell",
    "tool_input": {"command": "git push --force", "cwd": "", "timeout": 30000},
    "tool_use_id": "2f690fc9",
    "cwd": "/srv/ada/shop/api",
}


def hook_input(event: dict[str, Any], given: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """The event as standard input, with these changes; `given` changes the tool's input."""
    changed = event | changes
    if given:
        changed["tool_input"] = event["tool_input"] | given
    return json.dumps(changed).encode()
