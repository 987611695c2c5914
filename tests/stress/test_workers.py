"""Rolling restarts and revived workers in full: 500 waiting runs, workers stopped for two minutes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.databases import Postgres
from tests.integration.crash.revived import frozen_before_its_effect, frozen_in_its_turn
from tests.integration.crash.rolling import rolling_restart
from tests.stress.budget import SIZE, full
from tests.stress.side_by_side import side_by_side

RUNS = full(500)
AWAY = max(15.0, 120.0 * SIZE)
"""Seconds; a lease is over after ten."""


@pytest.mark.stress
async def test_a_rolling_restart_resumes_each_run_once(database_url: str, tmp_path: Path) -> None:
    """Every line is written once, nothing is in doubt, p99 from decision to tool within 5 s."""
    await rolling_restart(database_url, tmp_path, RUNS, seconds=RUNS / 10)


@pytest.mark.stress
async def test_a_revived_worker_writes_nothing(postgres: Postgres, tmp_path: Path) -> None:
    """Stopped before its effect or in its turn: it starts no effect, and what others wrote meanwhile stays."""
    plays = {
        "before-its-effect": partial(frozen_before_its_effect, seconds=AWAY),
        "in-its-turn": partial(frozen_in_its_turn, seconds=AWAY),
    }
    await side_by_side(plays, postgres, tmp_path)
