"""What `make stress` prints while it runs, and that it ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.patience import promised

ROOT = Path(__file__).parents[2]
QUICK = """
from tests.stress import budget, progress

budget.SPARE, progress.GRACE, progress.PERIOD = 0.5, SECONDS, 0.1
budget.SECONDS |= dict.fromkeys(("test_keeps", "test_breaks", "test_waits", "test_spins"), 0.1)
"""
TESTS = """
import asyncio, time, pytest
from tests.stress.rounds import counted

pytestmark = pytest.mark.stress

@pytest.mark.parametrize("case", "ab")
async def test_keeps(case):
    for _ in counted(range(4)):
        await asyncio.sleep(0.05)

def test_breaks():
    assert [n for n in counted(range(9)) if n == 3] == []

async def test_waits():
    for _ in counted(range(7)):
        await asyncio.Event().wait()

def test_spins():
    while True:
        time.sleep(60)
"""


def play(folder: Path, tests: str) -> str:
    """All that is printed while these tests are kept under stress."""
    (folder / "quick.py").write_text(QUICK.replace("SECONDS, 0.1", f"{promised(1.0)}, 0.1"))
    (folder / "test_some.py").write_text(tests)
    options = ["-q", "-m", "stress", "-p", "no:cacheprovider", "-p", "tests.stress.progress", "-p", "quick"]
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *options, str(folder)]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ran.stdout + ran.stderr


def test_stress_tells_how_far_it_is_ends_what_hangs_and_closes_with_a_table(tmp_path: Path) -> None:
    """Rounds and time left while it runs; a hang is an error that says how far it came; each promise has its row."""
    said = play(tmp_path, TESTS)
    assert "4 promises, about 1 min on two cores" in said
    assert re.search(r"[12]/5 keeps: \d of 4 rounds; about 1 min left", said)
    assert re.search(r"2/5 keeps: kept after \d s, 4 of 4 rounds; about 1 min left", said)
    assert re.search(r"3/5 breaks: FAILED after \d s, 9 of 9 rounds, 1 failed", said)
    assert re.search(r"no end after \d+ s: 0 of 7 rounds are done", said)
    assert re.search(r"no end after \d+ s: 0 of 1 rounds are done", said)
    table = [line.split()[:-1] for line in said.partition(" promises =")[2].splitlines()]
    assert table[1:6] == [
        ["promise", "rounds", "failures"],
        ["keeps", "8", "0"],
        ["breaks", "9", "1"],
        ["waits", "0", "1"],
        ["spins", "1", "1"],
    ]
    assert "3 failed, 2 passed" in said


def test_stress_wants_to_know_how_long_a_test_takes(tmp_path: Path) -> None:
    """A test that the budget does not know is refused before any runs."""
    said = play(tmp_path, TESTS.replace("test_spins", "test_is_new"))
    assert "tests/stress/budget.py does not say how long these take: ['test_is_new']" in said
