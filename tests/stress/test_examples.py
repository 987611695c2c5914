"""Every shipped agent, killed at every named point."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.crash.deaths import EVERY
from tests.integration.crash.examples import EXAMPLES, die_at


@pytest.mark.stress
@pytest.mark.parametrize("death", EVERY)
@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_death_at_each_step(name: str, death: str, database_url: str, tmp_path: Path) -> None:
    """Restarted, it comes to the same end: each call answered once as it should be, no decision lost."""
    await die_at(death, EXAMPLES[name], database_url, tmp_path)
