"""What type checkers know of programs that import `signoff`: a wrong argument is an error, a right one is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("typed_program.py")


def check(*command: str | Path) -> str:
    """What a type checker prints about the program; empty ignores are errors, so all of them are needed."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.stdout + done.stderr


def test_mypy_sees_wrong_arguments(tmp_path: Path) -> None:
    """Tools, steps and guarded functions keep their parameters for mypy."""
    quick = ("--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent", "--config-file=")
    options = (*quick, "--warn-unused-ignores", "--cache-dir", tmp_path)
    said = check("mypy", *options, "--explicit-package-bases", PROGRAM)
    assert said == "Success: no issues found in 1 source file\n"


def test_pyright_sees_wrong_arguments(tmp_path: Path) -> None:
    """They keep them for pyright, and what is imported when it is used has its type too."""
    settings = {
        "include": [str(PROGRAM)],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    said = check("basedpyright", "-p", tmp_path, "--pythonpath", sys.executable)
    assert said.strip().endswith("0 errors, 0 warnings, 0 notes")
