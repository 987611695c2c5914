from __future__ import annotations

import ast
import asyncio
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import CO_COROUTINE
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
)
NOTHING: Mapping[str, str] = MappingProxyType({})
SHELL = ("", "bash", "console")
"""Languages of blocks with commands; a block without a language may be output instead."""

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^--8<-- "([^":]+)(?::(\w+))?"$', re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `included` is the file that it comes from, if any."""

    page: str
    line: int
    language: str
    code: str
    included: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    async def run(self, names: dict[str, Any], replaced: Mapping[str, str] = NOTHING) -> None:
        """Run the Python, which may await. `replaced` maps texts to those that the test needs."""
        text = self.code
        for shown, used in replaced.items():
            text = text.replace(shown, used)
        code = compile(text, str(self), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & CO_COROUTINE:
            await eval(code, names)  # the documentation's own code
        else:
            await asyncio.to_thread(exec, code, names)

    @property
    def commands(self) -> list[str]:
        lines = self.code.replace("\\\n", " ")
        if self.language == "bash":
            return [each.strip() for each in _whole(lines) if not each.startswith("#")]
        return [found[1].strip() for found in re.finditer(r"^\$ (.*)$", lines, re.MULTILINE)]


def blocks(page: str | None = None) -> list[Block]:
    return [each for each in _all() if page in (None, each.page)]


def _all() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for found in _FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            include = _INCLUDE.search(found[3])
            code = _INCLUDE.sub(_included, found[3])
            name = str(page.relative_to(ROOT))
            yield Block(name, line, found[2], textwrap.dedent(code), include[1] if include else None)


def _included(include: re.Match[str]) -> str:
    """The file, or its part between `--8<-- [start:name]` and `[end:name]`."""
    text = (ROOT / include[1]).read_text()
    if include[2] is None:
        return text
    _, _, begun = text.partition(f"# --8<-- [start:{include[2]}]\n")
    part, end, _ = begun.partition(f"# --8<-- [end:{include[2]}]")
    assert end, f"{include[1]} has no part {include[2]}"
    return textwrap.dedent(part)


def _whole(lines: str) -> Iterator[str]:
    """Join lines while a quotation is open."""
    held = ""
    for line in lines.splitlines():
        held = f"{held}\n{line}" if held else line
        if held.count("'") % 2 == 0:
            if held.strip():
                yield held
            held = ""
