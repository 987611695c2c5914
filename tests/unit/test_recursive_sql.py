"""The statements of the store that recurse."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from agent import store

STORE = Path(store.__file__).parent
ALLOWED = {
    # Downwards, from a run to its child runs, usually none: the index on the parent finds them.
    "ancestors.py": 1,  # the order in which a cancellation locks them
    "views/runs.py": 3,  # who may cancel; values to hide; what became of a completed run's actions
    "views/run_calls.py": 1,  # how long one of them waited for people
    # Downwards from the first run: whether people said no to a tool in any of them, asked once for each use of a grant.
    "grants.py": 1,
    # From a call that is asked again to the one it repeats, usually none.
    "exclusions.py": 1,
    # Downwards through delegated calls only: which child runs a run waits for changes all the time.
    "views/descendants.py": 1,
    "views/change_token.py": 1,
    # From one key of an index to the next, past all rows between them.
    "audit.py": 1,
    "due_deliveries.py": 1,
    "views/metrics.py": 1,
    "views/open_calls.py": 1,
    "views/search.py": 1,
    "views/waiting_lists.py": 1,
}


def test_no_statement_recurses_upwards() -> None:
    """The ancestors of a run are stored with it; only the statements named here recurse, and none of them upwards."""
    found: Counter[str] = Counter()
    for path in STORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found[path.relative_to(STORE).as_posix()] += "WITH RECURSIVE" in node.value.upper()
            elif isinstance(node, ast.keyword) and node.arg == "recursive":
                found[path.relative_to(STORE).as_posix()] += 1
    assert +found == Counter(ALLOWED)


def test_no_statement_reads_a_key_out_of_a_principal() -> None:
    """Which API key a run or request belongs to is a column; no statement parses `key:<name>`."""
    for path in STORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "'key:" not in node.value, path
