"""What the documentation shows works: its Python, its policies and its commands are taken from the pages."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

import signoff
from agent.domain import checkpoints
from agent.runtime.agents import Agent, Registry
from agent.runtime.tool import tool
from slackbot import cli
from tests.doc_blocks import PAGES, ROOT, SHELL, Block, blocks

BLOCKS = blocks()
TESTS = sorted(ROOT.glob("tests/integration/**/test_*.py"))
PYTHON = [block for block in BLOCKS if block.language == "python"]
RUNNABLE = ("README.md", "docs/agents.md", "docs/quickstart.md")
ELSEWHERE = {
    "docs/api.md": "tests/integration/web/test_agentos.py",
    "docs/client.md": "tests/integration/integrations/test_page_blocks.py",
    "docs/integrations.md": "tests/integration/integrations/test_page_blocks.py",
    "docs/notices.md": "tests/integration/integrations/test_page_blocks.py",
    "docs/side-by-side.md": "tests/integration/integrations/test_page_blocks.py",
    "packages/signoff-client/README.md": "tests/integration/integrations/test_page_blocks.py",
}
"""Pages whose Python needs a running service, with the test that runs it."""


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_parses_and_imports_what_exists(block: Block) -> None:
    """Each Python block is valid, and every name that it imports from Signoff exists."""
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "signoff":
            module = import_module(node.module or "")
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_runs_somewhere(block: Block) -> None:
    """A block in a language that no test knows, or on a page that no test runs, has to be given to one."""
    assert block.language in ("python", "toml", "json", *SHELL)
    if block.language == "json":
        assert json.loads(block.code) is not None
    if block.included is not None:
        name = Path(block.included).stem
        assert any(name in test.read_text() for test in TESTS), f"no test runs {block.included}"
    elif block.language == "python":
        assert block.page in (*RUNNABLE, *ELSEWHERE)


def test_pages_are_run_by_the_tests_that_are_named() -> None:
    """Each test that runs a page's Python names the page."""
    assert [page for page, test in ELSEWHERE.items() if page not in (ROOT / test).read_text()] == []


@pytest.mark.parametrize("page", RUNNABLE)
def test_agents_of_a_page_can_be_served(page: str) -> None:
    """A page's agents and tools are what its blocks say, read from top to bottom, and a service can register them."""
    spoken_of = {name: _function(name) for name in ("prepare", "carry_out", "process_refund")}
    names: dict[str, object] = {
        "__name__": "page",
        **spoken_of,
        "process_refund": tool(_function("process_refund")),
    }
    for block in PYTHON:
        if block.page == page and "ApprovalClient" not in block.code:
            exec(compile(block.code, str(block), "exec"), names)  # the documentation's own code
    served = Registry(value for value in names.values() if isinstance(value, Agent))
    assert len(served) > 0


def test_python_that_stands_alone_has_right_types(tmp_path: Path) -> None:
    """`mypy --strict` finds nothing in a block that defines or imports all that it names but its address and secrets.

    A body `...` is left out.
    """
    own = {f"block_{number}": block for number, block in enumerate(PYTHON) if block.included is None}
    for name, block in own.items():
        (tmp_path / f"{name}.py").write_text(f'url = key = secret = ""\n{block.code}')
    quick = ("--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent", "--config-file=")
    options = (
        "--strict",
        "--disable-error-code=empty-body",
        "--explicit-package-bases",
        "--no-error-summary",
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            *quick,
            *options,
            "--cache-dir",
            tmp_path / "cache",
            *tmp_path.glob("*.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    found = [re.match(r".*?(block_\d+)\.py:(\d+): error: (.*)", line) for line in done.stdout.splitlines()]
    errors = [(each[1], f"{own[each[1]]}+{int(each[2]) - 1}: {each[3]}") for each in found if each]
    leans = {name for name, error in errors if error.endswith(("[name-defined]", "[top-level-await]"))}
    assert [error for name, error in errors if name not in leans] == []
    assert len(own.keys() - leans) > 10, done.stdout + done.stderr


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "toml"], ids=str)
def test_policies_load(block: Block) -> None:
    """Each policy is one that the service would start with."""
    policy = checkpoints.load(block.code, filename=str(block))
    assert policy.in_file_order or policy.limits


def _commands() -> Iterator[tuple[str, str]]:
    """Each command of a console block, and each in a sentence that is written out in full."""
    for block in BLOCKS:
        if block.language in SHELL:
            for line in block.commands:
                if found := re.match(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(signoff [a-z].*)", line):
                    yield str(block), found[1]
    for page in PAGES:
        for found in re.finditer(r"`(signoff [a-z][^`\n]*)`", page.read_text()):
            if not set(found[1]) & set("…|["):
                yield str(page.relative_to(ROOT)), found[1]


@pytest.mark.parametrize(("place", "line"), sorted(set(_commands())), ids=str)
def test_commands_exist_with_their_options(place: str, line: str) -> None:
    """Each command that a page shows exists, and has the options shown there."""
    _, name, *words = shlex.split(line, comments=True)
    assert name in cli.COMMANDS, f"{place}: signoff {name}"
    command = cli.opened(name)
    words = words[: words.index("--")] if "--" in words else words
    shown = [command]
    while words and words[0] in (inner := getattr(shown[-1], "commands", {})):
        shown.append(inner[words.pop(0)])
    if "list" in getattr(shown[-1], "commands", {}):  # what such a group does without a name
        shown.append(shown[-1].commands["list"])
    known = {option for each in shown for parameter in each.params for option in parameter.opts}
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given <= known | {"--help"}


def test_the_reference_has_every_public_name() -> None:
    """Each name that `signoff` exports stands on the page of the Python API."""
    page = (ROOT / "docs/reference/python.md").read_text()
    shown = re.findall(r"^::: signoff\.(?:[\w.]+\.)?(\w+)$", page, re.MULTILINE)
    assert sorted(set(signoff.__all__) - set(shown)) == []


def test_the_quickstart_starts_in_a_checkout(tmp_path: Path) -> None:
    """Its commands up to the demo run as typed beside the repository's own files, and print what the page shows."""
    (tmp_path / "checkpoints.toml").write_bytes((ROOT / "checkpoints.toml").read_bytes())
    (tmp_path / ".venv").symlink_to(sys.prefix)
    [block] = [each for each in blocks("docs/quickstart.md") if "signoff init" in each.code]
    *typed, demo = block.commands
    assert demo == "signoff demo --agents my_agents"
    script = "\n".join(["set -e", *typed, "test -f my_agents.py"])
    ended = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, check=False, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    shown = [line for line in block.code.splitlines() if not line.startswith("$")]
    assert ended.stdout.splitlines()[: len(shown)] == shown


def _function(name: str) -> Callable[[str], str]:
    """A function that a page speaks of and does not show."""

    def function(task: str) -> str:
        return task

    function.__name__ = name
    return function
