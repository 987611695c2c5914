"""The crash matrix at its full size: ROUNDS deaths at every point (100 unless set)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.crash.deaths import EVERY, die_and_recover
from tests.integration.crash.street import street

ROUNDS = int(os.environ.get("ROUNDS", "100"))


@pytest.mark.stress
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_a_death_at_every_point(number: int, database_url: str, tmp_path: Path) -> None:
    """No acknowledged decision is lost, no tool runs twice, no card appears twice, all is over within 30 s."""
    del number
    async with street(database_url, tmp_path, lanes=len(EVERY)) as here:
        await die_and_recover(here, EVERY)
