"""The integrations where their frameworks are not installed."""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import signoff


@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("agno", "agno", "agno"),
        ("mcp", "mcp", "mcp"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_without_its_framework_an_integration_says_what_to_install(
    module: str, framework: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An integration without its framework is an ImportError that names the extra."""
    monkeypatch.delitem(sys.modules, f"signoff.integrations.{module}", raising=False)
    for name in [each for each in sys.modules if each.split(".")[0] == framework]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError) as raised:
        importlib.import_module(f"signoff.integrations.{module}")
    assert f"pip install '.[{extra}]'" in str(raised.value)


ROOT = Path(signoff.__path__[0]).parent
INTEGRATIONS = ("agno", "dbos", "langchain", "langgraph", "mcp", "openai-agents", "pydantic-ai")


def _imported(module: str, seen: set[str]) -> Iterator[str]:
    """Libraries that this module of ours needs to be loaded, through others of ours as well."""
    path = ROOT.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    if module in seen or not file.exists():
        return
    seen.add(module)
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_for_types(node):
            continue
        waiting.extend(ast.iter_child_nodes(node))
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        for name in names:
            if name.split(".")[0] == "signoff":
                yield from _imported(name, seen)
            elif name.split(".")[0] not in sys.stdlib_module_names:
                yield name.split(".")[0]


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _distribution(requirement: str) -> str:
    return requirement.partition("[")[0].partition(">")[0].partition("=")[0].strip().lower()


@pytest.mark.parametrize("project", ["pyproject.toml", "packages/signoff-client/pyproject.toml"])
@pytest.mark.parametrize("extra", INTEGRATIONS)
def test_an_extra_declares_what_its_integration_imports(project: str, extra: str) -> None:
    """Each library that loading an integration needs is declared by its extra or by the distribution itself, so none is
    there by another library's grace.
    """
    declared = tomllib.loads((ROOT / project).read_text(encoding="utf-8"))["project"]
    known = {
        _distribution(each) for each in (*declared["dependencies"], *declared["optional-dependencies"][extra])
    }
    owners = packages_distributions()
    imported = set(_imported(f"signoff.integrations.{extra.replace('-', '_')}", set()))
    assert imported, "an integration imports its framework"
    missing = {
        name for name in imported if not known & {each.lower().replace("_", "-") for each in owners[name]}
    }
    assert missing == set()
