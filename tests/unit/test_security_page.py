"""`docs/security.md` names tests; this finds each of them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_NAMED = re.compile(r"`(?:tests/)?((?:unit|integration|e2e|stress)/[\w/]+\.py)?(?:::(test_\w+))?`")


@cache
def functions_of(path: str) -> set[str]:
    module = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_that_the_page_names_is_there() -> None:
    """A promise without its test would be a claim; `::test_x` is in the file that was named before it."""
    named, path = 0, ""
    for line in (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines():
        for file, test in _NAMED.findall(line):
            path = file or path
            assert not file or (ROOT / "tests" / file).is_file(), file
            assert not test or test in functions_of(path), f"{path}::{test}"
            named += bool(test)
    assert named > 60
