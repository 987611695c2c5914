from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from agent.database.pools import Database
from agent.domain.replay import RecordedJudgement
from agent.store import judgements


async def recorded(db: Database, since: datetime) -> AsyncIterator[list[RecordedJudgement | None]]:
    """Evaluations, oldest first, in pages; ``None``: erased."""
    async with db.connection() as connection:
        async for page in judgements.recorded(connection, since):
            yield page
