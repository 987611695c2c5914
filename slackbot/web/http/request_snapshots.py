"""Batch reads of requests: many callers wake at the same moment."""

from __future__ import annotations

import asyncio
from uuid import UUID

from agent.database.background import start_task
from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.store import views


class RequestSnapshots:
    """Reads all requested ids with one query that starts after the last caller asked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asked: dict[UUID, asyncio.Future[RequestView | None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, request_id: UUID) -> RequestView | None:
        """The state after this call; ``None``: no such request. Raises what reading raises."""
        if not self._asked:
            task = start_task(self._read(), "views")
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        future = self._asked.get(request_id)
        if future is None:
            future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(future)  # one caller's disconnect must not cancel the others

    async def _read(self) -> None:
        """Starts after all callers woken with the first have asked."""
        asked, self._asked = self._asked, {}
        try:
            found = {view.id: view for view in await self._db.read(views.request_views, list(asked))}
        except Exception as error:  # each caller handles it
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # retrieved, in case every caller has disconnected
            return
        except BaseException:
            for future in asked.values():
                future.cancel()
            raise
        for request_id, future in asked.items():
            future.set_result(found.get(request_id))
