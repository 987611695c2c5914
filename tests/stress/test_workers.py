"""Rolling restarts and revived workers in full: RUNS waiting runs (500), workers stopped for AWAY seconds (120)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.crash.revived import frozen_before_its_effect, frozen_in_its_turn
from tests.integration.crash.rolling import rolling_restart

RUNS = int(os.environ.get("RUNS", "500"))
AWAY = float(os.environ.get("AWAY", "120"))


@pytest.mark.stress
async def test_a_rolling_restart_resumes_each_run_once(database_url: str, tmp_path: Path) -> None:
    """Every line is written once, nothing is in doubt, p99 from decision to tool within 5 s."""
    await rolling_restart(database_url, tmp_path, RUNS, seconds=RUNS / 10)


@pytest.mark.stress
async def test_a_revived_worker_starts_no_effect(database_url: str, tmp_path: Path) -> None:
    """Stopped between claim and effect for two minutes: it starts nothing, and overwrites nothing."""
    await frozen_before_its_effect(database_url, tmp_path, AWAY)


@pytest.mark.stress
async def test_a_revived_worker_writes_no_turn(database_url: str, tmp_path: Path) -> None:
    """Stopped in the middle of a turn for two minutes: the turn is another worker's by then, and stays that."""
    await frozen_in_its_turn(database_url, tmp_path, AWAY)
