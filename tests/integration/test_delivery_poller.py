"""Finding the channels with due messages: by wake-ups, and by polls for what no wake-up names."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.database.wakeups import Wakeup, WakeupKind
from agent.store import outbox
from agent.store.outbox import Destination
from agent.usecases import deliveries
from agent.usecases.due_messages import DueMessage, Sent
from slackbot.delivery.poller import DeliveryPoller
from tests.integration.asking import REVIEWS, TEAM, ask
from tests.integration.service.conftest import until

HERE, THERE = REVIEWS.channel_id, "C0AGENTS"


@dataclass
class Recorder:
    """Replaces the drain: records its channels, and holds each until the test releases it."""

    db: Database
    sent_to: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    ts: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    fails: bool = False
    woken: set[str] = field(default_factory=set)

    async def run(self, team_id: str, channel_id: str) -> None:
        here = Destination(team_id, channel_id)
        due = await self._next(here, None)
        if due is None:
            return
        self.sent_to.append(channel_id)
        try:
            if not self.fails:
                await self.go.wait()
        except asyncio.CancelledError:
            await deliveries.release(self.db, due)
            raise
        if self.fails:
            await deliveries.release(self.db, due)
            raise RuntimeError("the drain is broken")
        while due:
            due = await self._next(here, Sent(due, f"{next(self.ts)}.0", pause=0.0))

    async def _next(self, here: Destination, after: Sent | None) -> DueMessage | None:
        """The next message, after another look if there has been a wake-up meanwhile."""
        while True:
            self.woken.discard(here.channel_id)
            due = (await deliveries.take_next(self.db, here, "recorder", after=after)).due
            if due is not None or here.channel_id not in self.woken:
                return due
            after = None

    def wake(self, channel_id: str) -> None:
        self.woken.add(channel_id)

    def leave(self) -> None:
        """It ends by itself."""


@pytest.fixture
async def recorder(database: Database) -> Recorder:
    return Recorder(database)


@pytest.fixture
async def rounds(database: Database, recorder: Recorder) -> AsyncIterator[DeliveryPoller]:
    going = DeliveryPoller(database, TEAM, recorder, pace=0.01)  # type: ignore[arg-type]
    yield going
    recorder.go.set()
    await going.stop(10)


async def test_each_channel_with_something_to_tell_is_drained_once(
    database: Database, recorder: Recorder, rounds: DeliveryPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Channels are found wherever they are, side by side, and not again while somebody is telling there."""
    await ask(database)
    await ask(database, destination=Destination(TEAM, THERE))
    await ask(database, destination=Destination("T0OTHER", "C0THEIRS"))
    looks = 0

    async def counted(db: Database, team_id: str) -> list[str]:
        nonlocal looks
        looks += 1
        return await channels_due(db, team_id)

    channels_due = deliveries.channels_due
    monkeypatch.setattr(deliveries, "channels_due", counted)
    rounds.start()
    await until(lambda: _said(len(recorder.sent_to) == 2))
    several = looks + 5
    await until(lambda: _said(looks > several))
    assert sorted(recorder.sent_to) == sorted([HERE, THERE])
    assert rounds.alive
    assert await deliveries.channels_due(database, "T0OTHER") == ["C0THEIRS"]


async def test_what_comes_while_a_channel_is_drained_is_told(
    database: Database, recorder: Recorder, rounds: DeliveryPoller
) -> None:
    """No moment is lost between the last look of one drain and the first of the next."""
    rounds.start()
    recorder.go.set()
    for _ in range(20):
        await ask(database)
    await until(lambda: _nothing_due(database))
    assert set(recorder.sent_to) == {HERE, THERE}  # there lie the threads of the runs


async def test_a_commit_wakes_the_drain_of_its_channel(
    database: Database, recorder: Recorder, rounds: DeliveryPoller
) -> None:
    """A message written in this process is sent at once, and not only at the next poll."""
    rounds._pace = 3600.0
    recorder.go.set()
    rounds.start()
    await until(lambda: _said(rounds.alive))
    await ask(database)
    await until(lambda: _nothing_due(database))
    assert set(recorder.sent_to) == {HERE, THERE}


async def test_what_another_process_announces_is_looked_for(
    database: Database, recorder: Recorder, rounds: DeliveryPoller
) -> None:
    """A process that only serves the web leaves messages behind: its announcement is followed by a round."""
    rounds._pace = 3600.0
    recorder.go.set()
    rounds.start()
    await until(lambda: _said(rounds.alive))
    rounds._leave.pop(0)()  # nobody takes a wake-up here
    await ask(database)
    assert recorder.sent_to == []
    database.wakeups.hear("")
    await until(lambda: _nothing_due(database))


async def test_a_channel_for_which_there_is_no_room_is_told_when_there_is(
    database: Database, recorder: Recorder, rounds: DeliveryPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many channels speak: the wake-up is left to other processes, and the end of a drain brings a round."""
    monkeypatch.setattr("slackbot.delivery.poller.AT_ONCE", 1)
    left: list[Wakeup] = []
    rounds._pace = 3600.0
    rounds.start()
    await until(lambda: _said(rounds.alive))

    def leave(wakeups: Sequence[Wakeup]) -> Sequence[Wakeup]:
        left.extend(wakeups)
        return []

    end = database.wakeups.listen(leave)
    await ask(database)
    end()
    assert [each.key for each in left if each.kind is WakeupKind.CHANNEL] == [HERE]
    recorder.go.set()
    await until(lambda: _nothing_due(database))
    assert set(recorder.sent_to) == {HERE, THERE}


async def test_a_drain_that_fails_is_tried_again_and_stops_no_other(
    database: Database, recorder: Recorder, rounds: DeliveryPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken drain restarts after a pause; meanwhile the polls continue."""
    monkeypatch.setattr("slackbot.delivery.poller.AFTER_FAILURE", 0.01)
    recorder.fails = True
    await ask(database)
    rounds.start()
    await until(lambda: _said(len(recorder.sent_to) >= 2))
    recorder.fails = False
    recorder.go.set()
    await until(lambda: _nothing_due(database))
    assert rounds.alive


async def test_a_line_whose_thread_has_no_root_yet_brings_nobody(
    database: Database, recorder: Recorder, rounds: DeliveryPoller
) -> None:
    """While the card has to wait, its lines bring no drain: it would find nothing to say, again and again."""
    asked = await ask(database)
    here = Destination(TEAM, HERE)
    async with database.transaction() as tx:
        outbox.enqueue(tx, [outbox.request_line(here, asked.request_id, "reminder")])
        tx.add(
            text("UPDATE delivery SET not_before = clock_timestamp() + interval '1 hour' WHERE kind = 'card'")
        )
    assert HERE not in await deliveries.channels_due(database, TEAM)


async def test_stopping_lets_a_drain_end(
    database: Database, recorder: Recorder, rounds: DeliveryPoller
) -> None:
    """Who stops waits for what is being told, but not longer than it was given."""
    await ask(database)
    rounds.start()
    await until(lambda: _said(bool(recorder.sent_to)))
    stopping = asyncio.create_task(rounds.stop(10))
    await asyncio.sleep(0)
    assert not stopping.done()
    recorder.go.set()
    await stopping
    assert await deliveries.channels_due(database, TEAM) == []
    assert not rounds.alive


async def test_a_drain_that_does_not_end_in_time_is_cut_off(
    database: Database, recorder: Recorder, rounds: DeliveryPoller
) -> None:
    """After its time the drain is cancelled and releases its channel; what it did not send stays due."""
    await ask(database)
    rounds.start()
    await until(lambda: _said(bool(recorder.sent_to)))
    await rounds.stop(0.01)
    assert HERE in await deliveries.channels_due(database, TEAM)


async def _said(true: bool) -> bool:
    return true


async def _nothing_due(database: Database) -> bool:
    return await deliveries.channels_due(database, TEAM) == []
