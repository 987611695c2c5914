"""What a coding agent's `permissions` do with a call, as its documentation says: deny, then ask, then allow."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

Verdict = Literal["run", "ask", "deny"]

HOME, FOLDER = "/home/ada", "/home/ada/shop"
LISTS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("permission_list.json").read_text(encoding="utf-8")
)["permissions"]
_FIELDS = {
    "Bash": "command",
    "Read": "file_path",
    "Edit": "file_path",
    "Write": "file_path",
    "WebFetch": "url",
}
_RULE = re.compile(r"(\w+)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Use:
    """A call of a tool with the one argument that its rules look at."""

    tool: str
    text: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        given = {_FIELDS[self.tool]: self.text} if self.tool in _FIELDS else {}
        return {"signoff_folder": FOLDER, **given}


def original(use: Use) -> Verdict:
    if any(_matches(rule, use) for rule in LISTS["deny"]):
        return "deny"
    if any(_matches(rule, use) for rule in LISTS["ask"]):
        return "ask"
    return "run" if _is_allowed(use) else "ask"


def example(rule: str) -> Use:
    """A call that the rule is about."""
    tool, text = _read(rule)
    if tool.startswith("mcp__"):
        return Use(tool if tool.count("__") == 2 else f"{tool}__anything")
    if tool == "Bash":
        return Use(tool, text.removesuffix(":*"))
    if tool == "WebFetch":
        return Use(tool, f"https://{text.removeprefix('domain:')}/a")
    if text:
        return Use(tool, _absolute(text).replace("**/", "a/").replace("**", "b.py").replace("*", "c"))
    return Use(tool)


def _is_allowed(use: Use) -> bool:
    if use.tool != "Bash":
        return any(_matches(rule, use) for rule in LISTS["allow"])
    # What is substituted or redirected is never allowed.
    parts = _commands(use.text) if not re.search(r"\$\(|`|[<>]", use.text) else []
    return bool(parts) and all(any(_fits(rule, part) for rule in LISTS["allow"]) for part in parts)


def _matches(rule: str, use: Use) -> bool:
    tool, text = _read(rule)
    if tool.startswith("mcp__"):
        return use.tool == tool or (tool.count("__") == 1 and use.tool.startswith(f"{tool}__"))
    if tool != use.tool:
        return False
    if tool == "Bash":
        return any(_fits(rule, part) for part in _commands(use.text))
    if tool == "WebFetch":
        return urlsplit(use.text).hostname == text.removeprefix("domain:")
    return not text or _pattern(_absolute(text)).fullmatch(posixpath.normpath(use.text)) is not None


def _fits(rule: str, command: str) -> bool:
    tool, text = _read(rule)
    if tool != "Bash":
        return False
    prefix = text.removesuffix(":*")
    return command == prefix or (prefix != text and command.startswith(f"{prefix} "))


def _commands(text: str) -> list[str]:
    """The commands that the shell's operators join."""
    lexer = shlex.shlex(text, posix=False, punctuation_chars=";&|<>()`\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    lexer.wordchars += "$*?!@#%^+=,:[]{}\\"
    parts: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= set(";&|\n"):
                parts.append([])
            else:
                parts[-1].append(word)
    except ValueError:
        return [text]
    return [" ".join(each) for each in parts if each]


@cache
def _read(rule: str) -> tuple[str, str]:
    found = _RULE.fullmatch(rule)
    assert found, rule
    return found[1], found[2] or ""


def _absolute(pattern: str) -> str:
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern.startswith("~/"):
        return HOME + pattern[1:]
    return f"{FOLDER}/{pattern.removeprefix('./').removeprefix('/')}"


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*)", glob)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts))
