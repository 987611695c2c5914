"""One key with 1,150 waiting calls, as they once stopped a service with 1,024 open files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.web.crowds import town, waits
from tests.stress.budget import full
from tests.stress.rounds import counted

FILES = 1_024
CALLS = 1_150
ROUNDS = full(10)


@pytest.mark.stress
async def test_one_key_cannot_use_up_the_open_files(database_url: str, tmp_path: Path) -> None:
    """The key opens 1,150 waits, again and again, and leaves none: health, Slack and other programs are served."""
    async with town(database_url, tmp_path, FILES) as here:
        for _ in counted(range(ROUNDS)):
            await here.hold(await waits(here), CALLS)
            await here.is_well()
            assert here.process.num_fds() < FILES
        assert "http.accept_failed" not in here.serve.said(10_000)
