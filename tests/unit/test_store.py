"""What the store is for: it turns rows into typed values and writes facts; use cases decide and record."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent
import signoff
import slackbot

STORE = Path(agent.__path__[0]) / "store"


def imports_of_row(source: str) -> Iterator[int]:
    """Lines that import SQLAlchemy's or psycopg's rows."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "sqlalchemy",
            "psycopg",
        ):
            yield from (
                node.lineno for alias in node.names if alias.name in ("Row", "RowMapping", "TupleRow")
            )


def public_rows(source: str) -> Iterator[str]:
    """Functions whose name has no leading underscore and that return a row, or several."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            returned = ast.unparse(node.returns) if node.returns else ""
            if "Row[" in returned or returned in ("Any", "list[Any]", "tuple[Any, ...]"):
                yield node.name


def test_rows_are_used_in_the_store_alone() -> None:
    """No module outside the store names a row's type."""
    packages = (Path(package.__path__[0]) for package in (agent, signoff, slackbot))
    modules = (path for package in packages for path in package.rglob("*.py") if STORE not in path.parents)
    sources = {str(path): path.read_text(encoding="utf-8") for path in modules}
    assert [
        path for path, source in sources.items() if "Row" in source and list(imports_of_row(source))
    ] == []


def test_no_function_of_the_store_returns_a_row() -> None:
    """What a use case reads is a value of a dataclass, checked by mypy. One function sorts rows for the store alone."""
    found = {path: list(public_rows(path.read_text(encoding="utf-8"))) for path in STORE.rglob("*.py")}
    assert {path.name: names for path, names in found.items() if names} == {"audit.py": ["ids_and_heads"]}


def test_the_store_records_nothing() -> None:
    """Audit events are appended by use cases, beside the decision that they tell of."""
    recording = {"audit.append", "audit.append_all", "audit.record"}
    found = [
        (path.name, ast.unparse(node.func))
        for path in STORE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in recording
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "async def lock(connection: Connection) -> Row[Any] | None: ...",
        "def due(connection: Connection) -> Sequence[Row[Any]]: ...",
        "def due(connection: Connection) -> Any: ...",
        "def first(rows: Sequence[Row[Any]]) -> Row[Any]: ...",
    ],
)
def test_a_returned_row_is_found(planted: str) -> None:
    """Each way of handing a row out is noticed; what is private to a module is not."""
    assert list(public_rows(planted))
    assert not list(public_rows(planted.replace("def ", "def _")))
