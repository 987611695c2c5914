"""The distribution `signoff-client`: the package `signoff` alone, small, with nothing but its declared dependencies."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "packages" / "signoff-client"
COMMAND = "from importlib.metadata import entry_points as e; e(group='console_scripts')['signoff'].load()()"


def closure(requirements: list[str], found: set[str]) -> set[str]:
    """The names of the distributions that these requirements bring along."""
    for each in map(Requirement, requirements):
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        if name not in found and (each.marker is None or each.marker.evaluate({"extra": ""})):
            found.add(name)
            closure(distribution(name).requires or [], found)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the built wheel and the files of its dependencies; returns its Python."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder / "venv", symlinks=True)
    packages = next((folder / "venv" / "lib").glob("python*/site-packages"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=SOURCE, check=True, capture_output=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    declared = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["dependencies"]
    for name in closure(declared, set()):
        for file in distribution(name).files or []:
            target = (packages / file).resolve()
            if target.is_relative_to(packages) and (whole := Path(str(file.locate()))).is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(whole, target)  # what is compiled already stays so
    return folder / "venv" / "bin" / "python"


def run(python: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run this in the fresh environment, in a folder that is not the checkout."""
    return subprocess.run(
        [python, "-c", *command], cwd=python.parent, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_is_small(installed: Path) -> None:
    """At most 25 distributions and 40 MB, compiled files included."""
    packages = next((installed.parents[1] / "lib").glob("python*/site-packages"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", packages], check=False, timeout=120)
    assert len(list(packages.glob("*.dist-info"))) <= 25
    assert sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) <= 40_000_000


def test_its_command_has_the_gate_and_mcp(installed: Path) -> None:
    """`signoff gate` calls the service, `signoff mcp` names the extra it needs, and neither imports anything else."""
    said = run(installed, COMMAND, "--help").stdout
    assert "gate" in said
    assert "mcp" in said
    deploy = ["gate", "--action", "deploy", "--timeout", "1s", "--url", "http://127.0.0.1:9", "--", "true"]
    key = f"import os; os.environ['SIGNOFF_KEY'] = 'k'; {COMMAND}"
    gate = run(installed, key, *deploy)
    assert (gate.returncode, "the service does not answer" in gate.stderr) == (69, True), gate.stderr
    mcp = run(installed, key, "mcp", "--url", "http://127.0.0.1:9")
    assert (mcp.returncode, mcp.stderr.count("\n")) == (2, 1)
    assert "'./packages/signoff-client[mcp]'" in mcp.stderr


def test_it_works_without_the_service_and_says_what_needs_it(installed: Path) -> None:
    """Client and webhooks are there; what belongs to the service is one line that says what to install."""
    assert run(installed, "from signoff import ApprovalClient, concluded, is_from_signoff").returncode == 0
    missing = run(installed, "from signoff import Agent")
    assert missing.stderr.strip().endswith(
        "signoff.Agent needs the whole service: pip install . in its checkout"
    )
