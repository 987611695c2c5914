"""Command groups that list by default: `signoff requests --status waiting`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class ListByDefault(TyperGroup):
    """Empty arguments, or a leading option, mean `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)
