"""The executor does the stored work of this process's agents.

Wake-ups and announcements may be lost: the next poll finds all work.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import cast
from uuid import UUID

from agent.database.background import start_task
from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.database.precedence import Rank
from agent.database.wakeups import Wakeup, WakeupKind
from agent.domain.errors import OutdatedPolicy
from agent.runtime.calls import advance_call
from agent.runtime.immediate_claims import claim_approved
from agent.runtime.model_turn import advance_run
from agent.runtime.services import Services
from agent.runtime.work_queue import WorkQueue
from agent.store import due_work
from agent.store.due_work import Lane

_FIRST = datetime.min.replace(tzinfo=UTC)

Notify = Callable[[str], None]
"""Send due notices to a webhook or by e-mail, without waiting."""

BUSY, IDLE = 0.25, 1.0
"""Seconds between polls: while they find work, and at most."""

SPACING = 0.02
"""Minimum seconds between polls."""

AFTER_FAILURE = 1.0
"""Seconds between attempts when the database does not answer."""

UNSERVED = 60.0
"""Seconds that an unloaded agent's run is left to other processes; then it fails."""

OVERDUE = 10.0
"""Seconds for a poll."""

SPREAD = 0.25
"""Seconds between announcements of more work than slots."""


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


class Executor:
    """The worker of a process: finds turns and calls of its agents, by wake-up or poll, and does them."""

    def __init__(
        self,
        services: Services,
        notify: Notify,
        *,
        concurrency: int = 20,
        drain_seconds: float = 30.0,
    ) -> None:
        self._services = services
        self._notify = notify
        self._drain_seconds = drain_seconds
        give_way = partial(services.db.precedence.give_way, Rank.LAST)
        self._queues = {
            WakeupKind.CALL: WorkQueue(self._advance_call, concurrency, self._feed, give_way),
            WakeupKind.RUN: WorkQueue(self._advance_run, concurrency, self._feed),
        }
        self._look = Look(services.db, self._agents, policy_epoch=lambda: services.policies.seen)
        self._loading: asyncio.Task[None] | None = None
        self._look_now = asyncio.Event()
        self._looked: float | None = None
        self._look_for_unserved = 0.0
        self._shared: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._heartbeat: asyncio.Task[None] | None = None
        self._leave: list[Callable[[], object]] = []

    async def _advance_call(self, wakeup: Wakeup) -> None:
        call_id = cast("UUID", wakeup.key)
        if wakeup.approved is None or not await claim_approved(self._services, call_id, *wakeup.approved):
            await advance_call(self._services, call_id)

    async def _advance_run(self, wakeup: Wakeup) -> None:
        """Four people who click without a pause would otherwise wait twice as long for their tools."""
        await self._services.db.precedence.give_way(Rank.TURN)
        await advance_run(self._services, cast("UUID", wakeup.key))

    @property
    def alive(self) -> bool:
        return self._looked is not None and monotonic() - self._looked < OVERDUE

    @property
    def calls(self) -> WorkQueue:
        return self._queues[WakeupKind.CALL]

    @property
    def connections(self) -> int:
        """Connections besides the pools'."""
        return 1

    async def start(self) -> None:
        wakeups = self._services.db.wakeups
        self._leave = [wakeups.listen(self.take), wakeups.on_announcement(self._look_now.set)]
        self._tasks = [
            start_task(self._poll(), "looks"),
            start_task(self._keep_listening(), "announcements"),
        ]
        self._heartbeat = start_task(self._services.heartbeat.run(), "heartbeat")

    async def stop(self) -> None:
        """Running work may end within the drain time."""
        for leave in self._leave:
            leave()
        tasks = [*self._tasks, *([self._loading] if self._loading else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._looked = None
        await asyncio.gather(*(queue.stop(self._drain_seconds) for queue in self._queues.values()))
        await self._services.joint_writes.finish()
        if self._heartbeat is not None:  # last: running work keeps its lease
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)

    def take(self, wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        """Returns what others should check, too."""
        return [wakeup for wakeup in wakeups if not self._taken(wakeup)]

    def _taken(self, wakeup: Wakeup) -> bool:
        if wakeup.kind is WakeupKind.NOTICES:
            self._notify(str(wakeup.key))
            return True
        if wakeup.kind is WakeupKind.POLICY:
            self._load_policy()
            return False  # others have to load it, too
        queue = self._queues.get(wakeup.kind)
        if queue is None or self._services.registry.find(wakeup.agent or "") is None:
            return False
        full = queue.busy
        queue.take(wakeup)
        if full:
            self._share()
        return True

    def _share(self) -> None:
        """Have other processes look for what waits here for a slot."""
        now = monotonic()
        if self._shared is None or now - self._shared >= SPREAD:
            self._shared = now
            self._services.db.wakeups.announce()

    def _load_policy(self) -> None:
        if self._loading is None or self._loading.done():
            self._loading = start_task(self._try_to_load_policy(), "policy")

    async def _try_to_load_policy(self) -> None:
        try:
            await self._services.policies.load()
        except OutdatedPolicy:
            pass  # logged
        except DatabaseError as error:  # the next poll finds the same
            log_failure("policy not loaded yet", error, action="policy.unloaded")

    def _agents(self) -> Sequence[str]:
        return [agent.name for agent in self._services.registry]

    def _feed(self) -> None:
        if self._look.more:
            self._look_now.set()

    async def _poll(self) -> None:
        pause = BUSY
        while True:
            self._look_now.clear()
            try:
                found = await self._begin()
                self._looked = monotonic()
                pause = BUSY if found else min(2 * pause, IDLE)
            except Exception as error:  # the next poll finds the same
                self._looked = None
                pause = AFTER_FAILURE
                log_failure("a poll failed", error, action="look.failed")
            await asyncio.sleep(SPACING)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._look_now.wait()

    async def _begin(self) -> int:
        self._services.concurrency.wake_waiting()
        found = await self._look.find()
        if monotonic() >= self._look_for_unserved:
            found += await self._look.find_unserved(UNSERVED)
            self._look_for_unserved = monotonic() + UNSERVED
        for wakeup in found:
            if wakeup.kind is WakeupKind.NOTICES:
                self._notify(str(wakeup.key))
            elif wakeup.kind is WakeupKind.POLICY:
                self._load_policy()
            elif not self._services.concurrency.waits(wakeup.key):
                self._queues[wakeup.kind].found(wakeup)
        return len(found)

    async def _keep_listening(self) -> None:
        while True:
            try:
                async for announcement in self._services.db.announcements():
                    self._services.db.wakeups.hear(announcement)
            except Exception as error:  # meanwhile polling finds announced work
                log_failure("notifications cannot be received", error, action="announcements.lost")
            await asyncio.sleep(AFTER_FAILURE)
