"""What people do is judged in one place for Slack, the inbox and the API, and read from one listing."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SLACKBOT = Path(__file__).parents[2] / "slackbot"
UNSEEN = "delivery/reviewer_check.py"
"""Reads all that waits to count its reviewers: nobody is shown these lines."""


AWAITED = {
    "agent/runtime/user_code.py": "its call reads how the task ends, in the loop of user code",
    "agent/usecases/audit.py": "the walk awaits what it reads ahead",
    "agent/runtime/branches.py": "the replay of a function reads how its tasks end",
    "slackbot/cli/service.py": "the command awaits it",
    "slackbot/service/slack_service.py": "a permanent failure ends the service",
    "slackbot/slack_api/lookups.py": "those who wait get its failure",
}
"""Modules that make tasks themselves, and who reads how these end."""


def test_tasks_that_nobody_awaits_are_begun_in_one_way() -> None:
    """`start_task` logs a failure that nobody would read; who makes tasks otherwise says who reads it."""
    root, found = SLACKBOT.parent, set()
    for path in (*root.glob("agent/**/*.py"), *SLACKBOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if called in ("create_task", "ensure_future", "Task"):
                found.add(path.relative_to(root).as_posix())
    assert found - {"agent/database/background.py"} == AWAITED.keys()


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
        ("views.found_for", "listing"),
        ("views.history_lines", "listing"),
        ("views.audience_counts", "listing"),
        ("views.filter_choices", "listing"),
        ("views.recent_runs", "listing"),
        ("views.running", "listing"),
    ],
)
def test_the_front_end_has_one_way_in(function: str, module: str) -> None:
    """Listeners and routes translate; they neither vote, edit, start, cancel nor list by themselves."""
    assert callers()[function] == {f"reviewing/{module}.py"}
    assert callers()["views.found_requests"] == {UNSEEN}
