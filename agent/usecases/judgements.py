"""Read stored policy evaluations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from agent.database.pools import Database
from agent.domain.replay import RecordedJudgement
from agent.store import judgements


async def recorded(db: Database, since: datetime) -> AsyncIterator[list[RecordedJudgement | None]]:
    """All evaluations since then, oldest first, in pages; ``None`` for erased content."""
    async with db.connection() as connection:
        async for page in judgements.recorded(connection, since):
            yield page
