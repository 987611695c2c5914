"""Poll page by page, so that blocked work does not hide the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from agent.database.pools import Database
from agent.database.wakeups import Wakeup
from agent.store import due_work
from agent.store.due_work import Lane

_FIRST = datetime.min.replace(tzinfo=UTC)


class Look:
    """Each lane continues where the last poll ended; ``more``: a lane has not ended."""

    def __init__(
        self,
        db: Database,
        agents: Callable[[], Sequence[str]],
        page: int = due_work.PAGE,
        policy_epoch: Callable[[], int] = int,
    ) -> None:
        self._db = db
        self._agents = agents
        self._page = page
        self._policy_epoch = policy_epoch
        self._seen: dict[tuple[Lane, str], datetime] = {}
        self.more = False

    async def find(self) -> list[Wakeup]:
        """Raises DatabaseError."""
        agents = self._agents()
        after = {lane: [self._seen.get((lane, agent), _FIRST) for agent in agents] for lane in Lane}
        found = await self._db.read(
            due_work.find, agents, after, self._page, policy_epoch=self._policy_epoch()
        )
        pages: dict[tuple[Lane, str], list[datetime]] = defaultdict(list)
        for each in found:
            if each.lane not in (Lane.NOTICES, Lane.POLICY):
                pages[each.lane, str(each.wakeup.agent)].append(each.at)
        self._seen = {lane: page[-1] for lane, page in pages.items() if len(page) >= self._page}
        self.more = bool(self._seen)
        return [each.wakeup for each in found]

    async def find_unserved(self, seconds: float) -> list[Wakeup]:
        """Runs unserved for this many seconds."""
        return await self._db.read(due_work.find_unserved, self._agents(), seconds, self._page)
