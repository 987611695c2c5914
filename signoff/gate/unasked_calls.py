"""Calls of coding agents that need nobody: they only read, talk to the user, or edit the project.

Everything else is asked about, above all what this version does not know. Each call of an agent starts this anew, so it
imports nothing that takes long.
"""

from __future__ import annotations

import io
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from signoff.errors import MalformedArguments
from signoff.gate.coding_agents import MAX_BYTES, Name, Permission, ToolCall, answer_text, read_call


@dataclass(frozen=True)
class UnaskedTools:
    """Tools of an agent, by the names in its events."""

    read: tuple[str, ...]
    talk: tuple[str, ...]
    edit: tuple[str, ...]


# fmt: off
UNASKED = {
    Name.CLAUDE: UnaskedTools(
        read=("Read", "Glob", "Grep", "LS", "NotebookRead", "TodoRead", "TaskGet", "TaskList", "TaskOutput",
              "BashOutput", "CronList", "ToolSearch"),
        talk=("AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TodoWrite", "TaskCreate", "TaskUpdate"),
        edit=("Edit", "MultiEdit", "Write", "NotebookEdit"),
    ),
    Name.CODEX: UnaskedTools(
        read=("read_file", "list_dir", "grep_files", "view_image"),
        talk=("update_plan", "request_user_input"),
        edit=("apply_patch",),
    ),
    Name.CURSOR: UnaskedTools(
        read=("Read", "Grep", "Glob", "LS", "ReadLints", "SemanticSearch"),
        talk=("TodoWrite", "AskQuestion"),
        edit=("Write", "StrReplace", "Edit", "MultiEdit", "EditNotebook", "Delete"),
    ),
}
# fmt: on

PRIVATE = (
    *(".git", ".claude", ".codex", ".cursor", ".vscode", ".mcp.json"),
    *(".signoff", "checkpoints.toml"),
)
"""Files and folders in which an edit changes what runs unasked, or who is asked."""

OTHER_TOOLS = "--other-tools"
"""The event is Cursor's for all tools: its shell commands and MCP tools have events of their own, which ask."""

_LATEST = 20
"""Seconds for reading the call and looking at its paths."""

_OWN_FILES = ("SIGNOFF_CHECKPOINTS", "SIGNOFF_KEY_FILE", "CLAUDE_CONFIG_DIR", "CODEX_HOME")
"""Variables that name a file or folder of the same kind."""

_PATHS = frozenset({"file_path", "notebook_path", "path", "target_file", "target_notebook"})
# fmt: off
_CONTENT = frozenset({
    "old_string", "new_string", "replace_all", "content", "contents", "edits", "new_source", "cell_id",
    "cell_type", "cell_number", "cell_idx", "edit_mode", "is_new_cell", "cell_language", "explanation",
})
# fmt: on
_HEADER = re.compile(r"\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)")
_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")
# A home, a variable, an address; what is trimmed or replaced elsewhere. Our reading of it could be wrong.
_DOUBTFUL = re.compile(r"[~$%]|[A-Za-z][A-Za-z0-9+.-]*:|.*[\x00-\x1f\x7f\\]", re.DOTALL)
_SHORT_NAME = re.compile(r"git~\d+")


def answers_at_once(words: Sequence[str]) -> bool:
    """Answer `signoff hook AGENT` without its command, which takes long to load. False: the command is needed."""
    agent, *options = words or [""]
    rest = [each for each in options if each != OTHER_TOOLS]
    if agent not in list(Name) or rest[::2] != ["--timeout"] * (len(rest) // 2) or sys.stdin.isatty():
        return False
    signal.alarm(_LATEST)  # killed, the hook has failed, which denies; late, some agents run the tool
    said = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        call = read_call(said)
        needed = not is_unasked(Name(agent), call, others=OTHER_TOOLS in options)
    except Exception:  # the command words it
        needed = True
    signal.alarm(0)
    if needed:
        sys.stdin = io.TextIOWrapper(io.BytesIO(said))
        return False
    print(answer_text(Name(agent), Permission("none")))  # noqa: T201
    return True


def is_unasked(agent: Name, call: ToolCall, *, match: str | None = None, others: bool = False) -> bool:
    """`match`: instead of the lists, the only tools that are asked about. `others`: the event is `OTHER_TOOLS`."""
    if others and agent is Name.CURSOR and (call.name == "Shell" or call.name.startswith("MCP:")):
        return True
    if match is not None:
        return not call.matches(match)
    tools = UNASKED[agent]
    if call.tool in tools.read or call.tool in tools.talk:
        return True
    return call.tool in tools.edit and _edits_only_the_project(agent, call)


def _edits_only_the_project(agent: Name, call: ToolCall) -> bool:
    try:
        patch = call.arguments if call.tool == "apply_patch" else None
        paths = list(_of_arguments(call.arguments) if patch is None else _of_patch(patch))
        return bool(paths) and all(_is_in_project(agent, call, each) for each in paths)
    except (MalformedArguments, OSError, ValueError):
        return False


def _of_arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Raises MalformedArguments for what might name another file."""
    for name, value in arguments.items():
        if name in _PATHS and isinstance(value, str):
            yield value
        elif name not in _CONTENT:
            raise MalformedArguments(f"$.{name}", "is not known")
        elif isinstance(value, dict | list):
            for each in [value] if isinstance(value, dict) else value:
                if not isinstance(each, dict):
                    raise MalformedArguments(f"$.{name}", "is not known")
                yield from _of_arguments(each)


def _of_patch(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Raises MalformedArguments for a line that might be a header, and is not one as documented."""
    text = arguments.get("command")
    if list(arguments) != ["command"] or not isinstance(text, str):
        raise MalformedArguments("$.command", "must be a patch, and nothing else")
    lines = text.strip("\n").split("\n")
    if (lines[0], lines[-1]) != _MARKS[:2] or not set(lines[1:-1]).isdisjoint(_MARKS[:2]):
        raise MalformedArguments("$.command", "must be one patch")
    for line in lines:
        if header := _HEADER.fullmatch(line):
            yield header[1]
        elif line.strip().startswith("***") and line not in _MARKS:
            raise MalformedArguments("$.command", "has a line that is not known")


def _is_in_project(agent: Name, call: ToolCall, path: str) -> bool:
    if not path or path != path.strip() or _DOUBTFUL.match(path) or normalize("NFC", path) != path:
        return False
    named = os.path.join(call.folder, path)  # noqa: PTH118 - a Path would drop what is compared next
    if os.path.realpath(named) != os.path.realpath(os.path.normpath(named)):
        return False  # `link/..` is its target's parent for the system, and the link's own for many programs
    real = Path(os.path.realpath(named))
    project = next((each for each in _projects(agent, call) if each in real.parents), None)
    if project is None or _is_private(real) or any(_covers(each, real, project) for each in _guarded()):
        return False
    if any(str(real.parent) == os.path.realpath(each) for each in os.get_exec_path()):
        return False  # another `signoff`, found before the hook's own
    try:
        found = real.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1  # not the second name of a file elsewhere


def _projects(agent: Name, call: ToolCall) -> Iterator[Path]:
    """Where the agent was started, not where it has gone since. A home, or what contains one, is no project."""
    started = os.environ.get("CLAUDE_PROJECT_DIR") if agent is Name.CLAUDE else None
    home = Path(os.path.realpath(Path.home()))
    for each in [started] if started else call.roots or [call.folder]:
        folder = Path(os.path.realpath(each))
        if Path(each).is_absolute() and folder != home and folder not in home.parents:
            yield folder


def _is_private(real: Path) -> bool:
    """Anywhere in the path, also under another name that a file system takes for the same.

    A file `HEAD` could make its folder a repository, with commands in its settings.
    """
    names = [_folded(each) for each in real.parts]
    return names[-1] == "head" or any(
        name in PRIVATE or name.endswith(".git") or _SHORT_NAME.fullmatch(name) for name in names
    )


def _folded(name: str) -> str:
    """Without case, invisible characters, and what Windows drops."""
    visible = "".join(each for each in name if category(each) != "Cf")
    return normalize("NFKC", visible).casefold().partition(":")[0].rstrip(". ")


def _guarded() -> Iterator[str]:
    """Where the hook's own program and settings lie."""
    yield from (value for name in _OWN_FILES if (value := os.environ.get(name)))
    yield from (each for each in (sys.prefix, str(Path(__file__).parents[1]), *sys.path) if each)


def _covers(guarded: str, real: Path, project: Path) -> bool:
    """Above the project, only a file there could be meant."""
    place, folded = Path(os.path.realpath(guarded)), Path(str(real).casefold())
    if place in project.parents:
        return False
    return Path(str(place).casefold()) in (folded, *folded.parents)
