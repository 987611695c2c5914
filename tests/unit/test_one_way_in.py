"""What people do is judged in one place for Slack, the inbox and the API, and read from one listing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SLACKBOT = Path(__file__).parents[2] / "slackbot"
UNSEEN = {"delivery/reviewer_check.py"}
"""Reads all that waits to count its reviewers: nobody is shown these lines."""


@cache
def callers() -> dict[str, set[str]]:
    """The modules of the front end by the functions that they call."""
    found: dict[str, set[str]] = {}
    for path in SLACKBOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            read = node.args[:1] if isinstance(node.func, ast.Attribute) and node.func.attr == "read" else []
            for called in (node.func, *read):  # `Database.read` calls the view that it is given
                found.setdefault(ast.unparse(called), set()).add(path.relative_to(SLACKBOT).as_posix())
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
    assert callers()[function] - UNSEEN == {f"reviewing/{module}.py"}
