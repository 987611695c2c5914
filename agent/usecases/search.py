"""The words of requests are stored for the search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.store import search, views

AT_ONCE = 200
"""At a round a second, a million old requests take an hour and a half, and little of a core."""


async def store_words(
    db: Database, words_of: Callable[[RequestView], Awaitable[Sequence[str]]], *, at_once: int = AT_ONCE
) -> int:
    """``words_of`` omits what people may not see."""
    async with db.transaction() as tx:
        due = await search.take_due(tx, at_once)
        found = await views.request_views(tx, due)
        search.store(tx, [search.SearchWords(view.id, view.recorded, await words_of(view)) for view in found])
    return len(due)
