"""What the documentation shows works: its Python, its policies and its commands are taken from the pages."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import signoff
from agent.domain import checkpoints
from agent.runtime.agents import Agent, Registry
from slackbot import cli
from tests.doc_blocks import PAGES, ROOT, SHELL, Block, blocks

BLOCKS = blocks()
TESTS = sorted(ROOT.glob("tests/integration/**/test_*.py"))
PYTHON = [block for block in BLOCKS if block.language == "python"]
RUNNABLE = ("README.md", "docs/agents.md", "docs/function-agents.md", "docs/quickstart.md")
ELSEWHERE = {
    "docs/answers.md": "tests/integration/integrations/test_page_blocks.py",
    "docs/api-agents.md": "tests/integration/web/test_agentos.py",
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
    """A page's agents and tools are what its blocks say, read from top to bottom, and a service can register them.

    Commands start none but these.
    """
    names: dict[str, object] = {"__name__": "page"}
    for block in PYTHON:
        if block.page == page and "ApprovalClient" not in block.code:
            exec(
                compile(block.code, str(block), "exec", dont_inherit=True), names
            )  # the documentation's own code
    served = Registry(value for value in names.values() if isinstance(value, Agent))
    assert len(served) > 0
    started = re.findall(r"(?:/agent run|schedule add --agent) ([a-z][\w-]*)", (ROOT / page).read_text())
    assert set(started) <= {agent.name for agent in served}


OWN = {f"block_{number}": block for number, block in enumerate(PYTHON) if block.included is None}
"""The blocks that are no part of a program with imports of its own."""


def test_a_block_can_be_pasted_below_the_earlier_ones_of_its_page(tmp_path: Path) -> None:
    """Each name in a block is defined or imported there, or in a block above it."""
    above: dict[str, str] = {}
    starts: dict[str, int] = {}
    for name, block in OWN.items():
        earlier = above.get(block.page, "")
        starts[name] = earlier.count("\n")
        above[block.page] = earlier + block.code
        (tmp_path / f"{name}.py").write_text(above[block.page])
    command = ("ruff", "check", "--isolated", "--select=F821", "--output-format=json", str(tmp_path))
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False, timeout=60)
    found = [
        (Path(error["filename"]).stem, error["location"]["row"], error["message"])
        for error in json.loads(done.stdout)
    ]
    assert [
        f"{OWN[name]}+{row - starts[name] - 1}: {said}" for name, row, said in found if row > starts[name]
    ] == []


def test_python_has_right_types(tmp_path: Path) -> None:
    """`mypy --strict` finds nothing in a block that needs no other than the first of its page.

    A body `...` is left out, and so is the base of a class from a library, which is not looked into.
    """
    first: dict[str, str] = {}
    starts: dict[str, int] = {}
    for name, block in OWN.items():
        needed = first.get(block.page, "")
        starts[name] = needed.count("\n")
        first.setdefault(block.page, block.code)
        (tmp_path / f"{name}.py").write_text(needed + block.code)
    options = (
        *("--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent", "--config-file="),
        *(
            "--strict",
            "--allow-subclassing-any",
            "--explicit-package-bases",
            "--no-error-summary",
            f"--cache-dir={tmp_path / 'cache'}",
        ),
        *(f"--disable-error-code={code}" for code in ("empty-body", "no-redef", "untyped-decorator")),
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *tmp_path.glob("*.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    lines = [re.match(r".*?(block_\d+)\.py:(\d+): error: (.*)", line) for line in done.stdout.splitlines()]
    errors = [
        (each[1], f"{OWN[each[1]]}+{row - starts[each[1]] - 1}: {each[3]}")
        for each in lines
        if each
        for row in [int(each[2])]
        if row > starts[each[1]]
    ]
    leans = {name for name, error in errors if error.endswith(("[name-defined]", "[top-level-await]"))}
    assert [error for name, error in errors if name not in leans] == []
    assert len(OWN.keys() - leans) > 20, done.stdout + done.stderr


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "toml"], ids=str)
def test_policies_load(block: Block) -> None:
    """Each policy is one that the service would start with."""
    policy = checkpoints.load(block.code, filename=str(block))
    assert policy.in_file_order or policy.limits


def _commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each command of a console block, and each in a sentence.

    `a [b]` is `a b`, and `a b \\| c` is both `a b` and `a c`.
    """
    for block in BLOCKS:
        if block.language in SHELL:
            for line in block.commands:
                yield from ((str(block), words) for words in _signoff_in(line))
    for page in PAGES:
        for found in re.finditer(r"`([^`\n]*\bsignoff [a-z][^`\n]*)`", page.read_text()):
            plain = found[1].translate({ord(each): None for each in "[]"})
            first, *others = plain.split(" \\| ")
            group = " ".join(first.split()[:2])
            for line in (first, *(f"{group} {other}" for other in others)):
                yield from ((str(page.relative_to(ROOT)), words) for words in _signoff_in(line))


def _signoff_in(line: str) -> Iterator[tuple[str, ...]]:
    """The words after each `signoff` at the beginning of a command of this shell line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    while words:
        end = next((n for n, word in enumerate(words) if set(word) <= set("();<>|&")), len(words))
        command, words = words[:end], words[end + 1 :]
        while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
            del command[0]
        if len(command) > 1 and command[0] in ("signoff", ".venv/bin/signoff"):
            yield tuple(command[1:])


def test_commands_of_pipes_and_substitutions_are_found() -> None:
    """No command of a line hides behind another one."""
    assert list(_signoff_in("export A=$(signoff keys create a) && B=1 signoff serve --port 1 | cat # x")) == [
        ("keys", "create", "a"),
        ("serve", "--port", "1"),
    ]


@pytest.mark.parametrize(("place", "command"), sorted(set(_commands())), ids=str)
def test_commands_exist_with_their_options(place: str, command: tuple[str, ...]) -> None:
    """Each command that a page shows exists, and has the options shown there."""
    name, *words = command
    assert name in cli.COMMANDS, f"{place}: signoff {name}"
    words = words[: words.index("--")] if "--" in words else words
    shown = [cli.opened(name)]
    while inner := getattr(shown[-1], "commands", {}):
        if words and words[0] in inner:
            shown.append(inner[words.pop(0)])
            continue
        assert not words or words[0].startswith("-") or words[0] == "…", f"{place}: signoff {name} {words[0]}"
        if "list" not in inner:
            break
        shown.append(inner["list"])  # what such a group does without a name
    known = {option for each in shown for parameter in each.params for option in parameter.opts}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= known | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_empty_line_stands_around_tables_and_before_lists(page: Path) -> None:
    """Without it, the site shows a list as a row of the table above, or as part of the sentence."""
    text = re.sub(r"^( *)```.*?^\1```$|^<!--.*?-->$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    joined = (
        r"^\|.*\n[^|\n].*",  # below a table
        r"^[^|\n* \d-].*\n\|.*",  # a table below a sentence
        r"^[^\n* \d-].*\n(?:[*-]|\d+\.) .*",  # a list below a sentence
    )
    assert [found for each in joined for found in re.findall(each, text, re.MULTILINE)] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    """A page above 2,500 words is two pages; the one named here lists frameworks."""
    longer = {"integrations.md": 3_400}
    assert len(page.read_text(encoding="utf-8").split()) <= longer.get(page.name, 2_500)


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


def test_what_the_quickstart_adds_to_a_new_project_is_enforced(tmp_path: Path) -> None:
    """Its agent and its checkpoint, added to what `signoff init` writes, pass the check that the page shows."""
    agents, policy = (
        next(
            each.code
            for each in blocks("docs/quickstart.md")
            if each.language == language and name in each.code
        )
        for language, name in (("python", "process_refund"), ("toml", "refund-over-limit"))
    )
    commands = f"""set -e
{sys.executable} -m slackbot init .
cat agents >> my_agents.py
cat policy >> checkpoints.toml
SIGNOFF_AGENTS=my_agents {sys.executable} -m slackbot check"""
    (tmp_path / "agents").write_text(agents)
    (tmp_path / "policy").write_text(policy)
    ended = subprocess.run(
        ["sh", "-c", commands], cwd=tmp_path, capture_output=True, check=False, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "refund-over-limit" in next(line for line in ended.stdout.splitlines() if "process_refund" in line)
