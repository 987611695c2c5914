"""Every shipped agent, killed at every named point."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.databases import Postgres
from tests.integration.crash.deaths import EVERY
from tests.integration.crash.examples import EXAMPLES, die_at
from tests.stress.side_by_side import side_by_side


@pytest.mark.stress
@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_death_at_each_step(name: str, postgres: Postgres, tmp_path: Path) -> None:
    """Restarted, each example ends the same: each call answered once as it should be, no decision lost."""
    plays = {death: partial(die_at, death, EXAMPLES[name]) for death in EVERY}
    await side_by_side(plays, postgres, tmp_path)
