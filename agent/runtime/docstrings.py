"""The model reads a docstring's first paragraph, and parameters under `Args:`."""

import inspect
import re
from collections.abc import Callable
from typing import Any

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields?|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def summary(function: Callable[..., Any]) -> str:
    paragraph = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    inside, indent, current = False, 0, ""
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if depth == 0:
            section = _SECTION.match(line)
            inside, current, indent = (
                bool(section and section[1] in ("Args", "Arguments", "Parameters")),
                "",
                0,
            )
            continue
        if not inside:
            continue
        indent = indent or depth
        if depth == indent and (named := _ARGUMENT.match(line.strip())):
            current = named[1]
            found[current] = named[2]
        elif current:
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found
