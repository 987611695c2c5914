"""Help texts, made from docstrings."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any


def unwrap_help(command: Any) -> Any:
    """Join the lines of each paragraph: typer keeps the line breaks of a docstring after its first paragraph."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(each.split("\n")) for each in paragraphs)
    for inner in getattr(command, "commands", {}).values():
        unwrap_help(inner)
    return command
