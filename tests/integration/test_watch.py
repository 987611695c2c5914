"""Waiting for a request: many who wait cost one look, and nobody who waits is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from agent.database.pools import Database
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.store import views
from slackbot.web.http import watch
from slackbot.web.http.context import request_snapshots
from slackbot.web.http.watch import ChangeWatch
from tests.integration import alone
from tests.integration.asking import GRACE, Asked, ask, ballot, reviewer

MANY = 20


async def decide(db: Database, asked: Asked) -> None:
    await alone.vote(db, ballot(asked, reviewer(GRACE), Verdict.REJECT, reason="no"))


async def test_who_asks_at_the_same_moment_is_read_for_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of simultaneous waiters cost one query, and each gets its own request."""
    asked = [await ask(database) for _ in range(3)]
    snapshots = request_snapshots(database)
    sent: list[Sequence[UUID]] = []

    async def counted(connection: AsyncConnection, ids: Sequence[UUID]) -> list[RequestView]:
        sent.append(ids)
        return await request_views(connection, ids)

    request_views = views.request_views
    monkeypatch.setattr(views, "request_views", counted)
    found = await asyncio.gather(*(snapshots.get(asked[n % 3].request_id) for n in range(MANY)))
    assert len(sent) == 1
    assert [view.id for view in found if view] == [asked[n % 3].request_id for n in range(MANY)]


async def test_one_who_hangs_up_is_not_all(database: Database) -> None:
    """Of two waiters for the same request one may leave: the other is informed."""
    asked = await ask(database)
    snapshots = request_snapshots(database)
    leaving, staying = (asyncio.create_task(snapshots.get(asked.request_id)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    view = await staying
    assert view is not None
    assert view.status is RequestStatus.WAITING


@pytest.mark.parametrize("by", ["the hint", "the sweep"])
async def test_a_decision_elsewhere_is_told(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """A waiter learns of another process's decision by the change token, or by the sweep; others wait."""
    if by == "the hint":
        monkeypatch.setattr(watch, "SWEEP", 3600)
    else:
        monkeypatch.setattr(views, "recently_changed", _nothing)
        monkeypatch.setattr(watch, "SWEEP", 0.2)
    mine, other = await ask(database), await ask(database)
    looking = ChangeWatch(database, pace=0.02)
    try:
        seen = await recorded(database, mine)
        waits = asyncio.ensure_future(looking.request(mine.request_id, seen, 20))
        waits_on = asyncio.ensure_future(
            looking.request(other.request_id, await recorded(database, other), 20)
        )
        await asyncio.sleep(0)  # both have begun
        async with Database(database_url) as elsewhere:
            await decide(elsewhere, mine)
        assert int(await waits) > seen
        assert not waits_on.done()
        waits_on.cancel()
    finally:
        await looking.stop()


async def test_a_decision_of_this_very_process_is_told_at_once(database: Database) -> None:
    """Who waits where the decision is made does not wait for the next look."""
    asked = await ask(database)
    looking = ChangeWatch(database, pace=3600)
    try:
        seen = await recorded(database, asked)
        waits = asyncio.ensure_future(looking.request(asked.request_id, seen, 3600))
        await asyncio.sleep(0)  # it has begun
        await decide(database, asked)
        async with asyncio.timeout(20):
            assert int(await waits) == await recorded(database, asked)
    finally:
        await looking.stop()


async def test_who_listens_badly_undoes_no_decision(database: Database) -> None:
    """A decision counts whatever happens to its waiters, and a waiter that has stopped gets no more."""
    heard: list[UUID] = []

    def badly(request_id: UUID, _: int) -> None:
        heard.append(request_id)
        raise ValueError("badly")

    first, second = await ask(database), await ask(database)
    listen_no_more = database.on_ending(badly)
    await decide(database, first)
    listen_no_more()
    await decide(database, second)
    assert heard == [first.request_id]
    view = await request_snapshots(database).get(first.request_id)
    assert view is not None
    assert view.status is RequestStatus.REJECTED


async def test_a_decision_before_the_wait_is_told(database: Database) -> None:
    """A waiter with an older view than the last look is answered at once, and one with a newer view waits."""
    asked = await ask(database)
    before = await recorded(database, asked)
    looking = ChangeWatch(database, pace=0.02)
    try:
        await decide(database, asked)
        assert int(await looking.request(asked.request_id, before, 20)) > before
        now = await recorded(database, asked)
        assert int(await looking.request(asked.request_id, now, 0.3)) == now
    finally:
        await looking.stop()


async def recorded(db: Database, asked: Asked) -> int:
    """How many things are on record about it now."""
    view = await request_snapshots(db).get(asked.request_id)
    assert view is not None
    return view.recorded


async def _nothing(_: object) -> dict[str, str]:
    return {}
