"""Requests as they stand, read once for all who ask in the same breath: many wait, and are told at the same moment."""

from __future__ import annotations

import asyncio
from uuid import UUID

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.store import views


class RequestSnapshots:
    """Reads what callers ask for with one query, begun after the last of them has asked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asked: dict[UUID, asyncio.Future[RequestView | None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, request_id: UUID) -> RequestView | None:
        """The request as it stands after this was called; ``None``: there is none. Raises what reading raises."""
        if not self._asked:
            task = asyncio.create_task(self._read(), name="views")
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        future = self._asked.get(request_id)
        if future is None:
            future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)  # one caller who hangs up is not all of them

    async def _read(self) -> None:
        """Begins when the loop has heard all who were woken together with the first."""
        asked, self._asked = self._asked, {}
        try:
            found = {view.id: view for view in await self._db.read(views.request_views, list(asked))}
        except Exception as error:  # theirs to judge, each by itself
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # looked at, in case that everybody has hung up
            return
        except BaseException:
            for future in asked.values():
                future.cancel()
            raise
        for request_id, future in asked.items():
            future.set_result(found.get(request_id))
