"""The package `signoff`: what it exports, and that a module of the user's called `agent` does not break it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import signoff

ROOT = Path(signoff.__file__).resolve().parents[1]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run this command of our environment in a folder of the user's."""
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_public_face_exports_exactly_this() -> None:
    """`signoff` offers these names and no others; a change is a change of the public API."""
    assert sorted(signoff.__all__) == [
        "Agent",
        "AlreadyClaimed",
        "Answer",
        "ApiError",
        "ApprovalClient",
        "ApprovalExpired",
        "AsyncApprovalClient",
        "CollaborationError",
        "Decision",
        "FactsFailed",
        "FunctionAgent",
        "LoadError",
        "MalformedArguments",
        "NotDone",
        "Person",
        "ProposedAction",
        "Registry",
        "Risk",
        "SignoffError",
        "Started",
        "StepFailed",
        "Tool",
        "ToolContext",
        "Unreachable",
        "UnusableForm",
        "answered",
        "ask",
        "concluded",
        "function_agent",
        "is_from_signoff",
        "load_agents",
        "set_label",
        "set_status",
        "sleep",
        "start",
        "step",
        "tool",
    ]
    assert dir(signoff) == sorted(signoff.__all__)
    assert all(getattr(signoff, name) is not None for name in signoff.__all__)


def test_no_module_has_the_name_of_an_export() -> None:
    """`from signoff import step` gives the function, whatever was imported before."""
    modules = {path.stem for path in (ROOT / "signoff").rglob("*.py")}
    folders = {path.name for path in (ROOT / "signoff").rglob("*") if path.is_dir()}
    assert not (modules | folders) & set(signoff.__all__)


def test_a_class_name_of_the_package_occurs_once_in_the_tree() -> None:
    """A reader who looks for a public class by its name finds one."""
    found: Counter[str] = Counter()
    ours: set[str] = set()
    for package in ("signoff", "agent", "slackbot", "signoff_demo.sandbox"):
        for path in (ROOT / package).rglob("*.py"):
            names = re.findall(r"^\s*class (\w+)", path.read_text(), re.MULTILINE)
            found.update(names)
            ours.update(names if package == "signoff" else [])
    public = {name for name in ours if not name.startswith("_")}
    assert not {name for name in public if found[name] > 1}


@pytest.fixture(params=["agent.py", "agent/__init__.py"])
def taken(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of the user's that has the name of our package."""
    path = tmp_path / str(request.param)
    path.parent.mkdir(exist_ok=True)
    path.write_text("MINE = True\n")
    return path


def test_the_client_works_beside_a_module_called_agent(taken: Path, tmp_path: Path) -> None:
    """Programs that use the client may have an `agent.py` or a folder `agent` of their own."""
    program = (
        "import agent; from signoff import ApprovalClient, concluded, is_from_signoff, Risk; "
        "import signoff.integrations.mcp, signoff.gate.gate_command; "
        "print(agent.MINE, ApprovalClient('http://localhost', 'k'))"
    )
    done = run(tmp_path, "-c", program)
    assert (done.returncode, done.stdout[:4]) == (0, "True"), done.stderr


@pytest.mark.parametrize("first", ["", "import agent; "])
def test_an_agent_that_hides_ours_is_named(first: str, taken: Path, tmp_path: Path) -> None:
    """What needs the service raises one line with the file that is in the way, imported already or not."""
    done = run(tmp_path, "-c", f"{first}from signoff import Agent")
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        f"ImportError: signoff.Agent needs the package agent of signoff, and {taken} hides it: rename that"
    )


def test_the_command_works_beside_a_module_called_agent(taken: Path, tmp_path: Path) -> None:
    """`signoff` looks for agents in the current folder, and its own package is found nevertheless."""
    done = run(tmp_path, "-P", "-c", "from slackbot.cli import main; main()", "manifest")
    assert (done.returncode, done.stderr) == (0, "")


def test_docs_and_examples_import_from_the_public_package_alone() -> None:
    """What readers copy names `signoff` and `signoff.integrations`, and no module of the service."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    private = re.compile(r"^\s*(?:from|import) (?:agent|slackbot)\b", re.MULTILINE)
    assert [page.name for page in pages if private.search(page.read_text())] == []
