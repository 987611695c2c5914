"""What people do is judged in one place for Slack, the inbox and the API, and read from one listing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SLACKBOT = Path(__file__).parents[2] / "slackbot"


@cache
def callers() -> dict[str, set[str]]:
    """The modules of the front end by the functions that they call."""
    found: dict[str, set[str]] = {}
    for path in SLACKBOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                found.setdefault(ast.unparse(node.func), set()).add(path.relative_to(SLACKBOT).as_posix())
    return found


@pytest.mark.parametrize(
    ("function", "module"),
    [
        ("votes.cast", "votes"),
        ("requests.edit", "edits"),
        ("runs.start", "run_starts"),
        ("runs.cancel", "cancel"),
        ("views.audiences", "listing"),
        ("views.waiting_for", "listing"),
        ("views.waiting_for_others", "listing"),
        ("views.requests_of", "listing"),
        ("views.found_requests", "listing"),
        ("views.audience_counts", "listing"),
        ("views.filter_choices", "listing"),
        ("views.recent_runs", "listing"),
        ("views.running", "listing"),
    ],
)
def test_the_front_end_has_one_way_in(function: str, module: str) -> None:
    """Listeners and routes translate; they neither vote, edit, start, cancel nor list by themselves."""
    assert callers()[function] == {f"reviewing/{module}.py"}
