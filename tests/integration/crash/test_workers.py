"""Workers that come back from the dead, and a shipped agent that dies: slices of what `make stress` runs in full."""

from __future__ import annotations

from pathlib import Path

from tests.integration.crash.examples import EXAMPLES, die_at
from tests.integration.crash.revived import frozen_before_its_effect


async def test_a_revived_worker_starts_no_effect(database_url: str, tmp_path: Path) -> None:
    """Stopped between claim and effect for longer than its lease: it starts nothing, and overwrites nothing."""
    await frozen_before_its_effect(database_url, tmp_path, 15.0)


async def test_the_data_manager_outlives_a_death_with_its_attempts_claimed(
    database_url: str, tmp_path: Path
) -> None:
    """Killed between claim and effect: the doubt is settled by Retry, and both approved calls run."""
    await die_at("after_approved_claim", EXAMPLES["data_manager"], database_url, tmp_path)
