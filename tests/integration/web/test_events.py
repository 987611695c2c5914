"""What happens, as server-sent events: told once it is recorded, again after a break, and ended in order."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from slackbot.web.api import events
from slackbot.web.api.event_feed import MAX_MISSED, Listener
from tests.integration.asking import write
from tests.integration.service.conftest import until
from tests.integration.web.living import Living, living


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents, and half a minute to stop."""
    async with living(database_url, SIGNOFF_DRAIN_SECONDS="30") as opened:
        yield opened


class Stream:
    """An open stream, read event by event."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.comments = 0

    async def next(self) -> dict[str, Any] | None:
        """The next event with its data; ``None`` at the end of the stream."""
        found: dict[str, Any] = {}
        async with asyncio.timeout(20):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                self.comments += line.startswith(": ")
                if not line and "event" in found:
                    return {**found, "data": json.loads(found["data"])}
                if name in ("id", "event", "data"):
                    found[name] = value
        return None

    async def until(self, event: str, **data: Any) -> dict[str, Any]:
        """The next event of this type with this in its data."""
        while (found := await self.next()) is not None:
            if found["event"] == event and found["data"].items() >= data.items():
                return found
        raise AssertionError("the stream ended")


async def seen(condition: Callable[[], bool]) -> None:
    """Wait until this holds."""

    async def look() -> bool:
        return condition()

    await until(look)


@asynccontextmanager
async def stream(client: httpx.AsyncClient, last: str | None = None) -> AsyncIterator[Stream]:
    headers = {"Last-Event-ID": last} if last else {}
    async with client.stream("GET", "/events", headers=headers) as answer:
        yield Stream(answer)


async def test_what_happens_is_told_without_its_content(service: Living) -> None:
    """A run, its request and the decision, each with ids and states; no word of the task is in any event."""
    asker, grace = await service.asker(), await service.reviewer()
    async with stream(grace) as feed:
        assert feed.answer.headers["content-type"].startswith("text/event-stream")
        started = await asker.post("/agents", json={"name": "durable-task", "task": "plant a secret tree"})
        agent_id = started.json()["agent_id"]
        begun = await feed.until("run.changed", run_id=agent_id, kind="run.started", status="working")
        opened = await feed.until("request.opened", status="waiting")
        await grace.post(f"/agents/{agent_id}/respond", json={"response": "approve"})
        decided = await feed.until("request.decided", request_id=opened["data"]["request_id"])
        ended = await feed.until("run.changed", run_id=agent_id, kind="run.ended")
    assert (decided["data"]["status"], ended["data"]["status"]) == ("approved", "completed")
    assert "tree" not in json.dumps([begun, opened, decided, ended])


async def test_after_a_break_nothing_is_missing(service: Living) -> None:
    """With the last event's id the stream begins with what followed it, and does not repeat that event itself."""
    asker, grace = await service.asker(), await service.reviewer()
    async with stream(grace) as feed:
        agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()[
            "agent_id"
        ]
        opened = await feed.until("request.opened")
    await grace.post(f"/agents/{agent_id}/respond", json={"response": "deny"})
    await service.becomes(grace, agent_id, "denied")
    async with stream(grace, last=opened["id"]) as feed:
        seen = [await feed.next() for _ in range(2)]
        while not any(each and each["data"].get("kind") == "run.ended" for each in seen):
            seen.append(await feed.next())
    ids = [each["id"] for each in seen if each]
    assert opened["id"] not in ids
    assert len(ids) == len(set(ids))
    assert "request.decided" in {each["event"] for each in seen if each}


async def test_a_burst_does_not_stop_the_feed(service: Living) -> None:
    """Shortly after more events than one read may return, a new listener gets what follows, and nothing before it."""
    asker, grace = await service.asker(), await service.reviewer()
    await write(service.house.db, _MANY_EVENTS, count=MAX_MISSED + 500)
    async with stream(grace) as feed:
        started = await asker.post("/agents", json={"name": "durable-task", "task": "x"})
        first = await feed.next()
    assert first is not None
    assert first["data"]["run_id"] == started.json()["agent_id"]


_MANY_EVENTS = """
INSERT INTO audit_event (subject, seq, at, actor, event, detail, hash)
SELECT 'run:' || gen_random_uuid(), 1, clock_timestamp(), 'test', 'run.message', '{}', sha256('')
FROM generate_series(1, :count)
"""


async def test_a_stream_ends_with_its_key_and_says_that_it_lives(
    service: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is filled with comments; a revoked key gets no more events."""
    monkeypatch.setattr(events, "HEARTBEAT", 0.2)
    grace = await service.reviewer()
    async with stream(grace) as feed:
        first = asyncio.create_task(feed.next())
        await seen(lambda: feed.comments >= 2)
        await api_keys.revoke(service.house.db, "reviewer", by="test")
        assert await first is None


async def test_a_stop_ends_streams_and_waits_at_once(service: Living) -> None:
    """With a stream and a long-poll open the service stops in seconds, although it may take half a minute."""
    asker, grace = await service.asker(), await service.reviewer()
    asked = {"request_id": "r-1", "action_description": "Delete it", "agent_context": {}}
    assert (await asker.post("/pending", json=asked)).status_code == 201
    async with stream(grace) as feed:
        waiting = asyncio.create_task(asker.get("/pending/r-1?wait=60"))
        ended = asyncio.create_task(feed.next())
        await seen(lambda: service.service.web.watch.waiting >= 2)
        began = time.monotonic()
        await service.service.stop()
        assert time.monotonic() - began < 10
        assert await ended is None
        assert (await waiting).json()["status"] == "waiting"


@pytest.mark.parametrize(
    ("scopes", "last", "status"),
    [
        ((Scope.REQUEST,), None, 403),
        ((Scope.READ,), "nonsense", 422),
        ((Scope.READ,), "0001-01-01T00:00:00.0Z/run:01980000-0000-7000-8000-000000000000/1", 422),
    ],
)
async def test_who_may_not_listen_is_told_why(
    service: Living, scopes: tuple[Scope, ...], last: str | None, status: int
) -> None:
    """A key without `read`, and an id that no event has, are problems and no streams."""
    client = await service.program("listener", *scopes)
    answer = await client.get("/events", headers={"Last-Event-ID": last} if last else {})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


async def test_a_listener_that_is_too_slow_is_let_go() -> None:
    """What lies ready for one listener is bounded: beyond that its stream ends, and it comes back with its last id."""
    listener = Listener()
    event = object()
    accepted = [listener.tell(event) for _ in range(1_001)]  # type: ignore[arg-type]
    assert accepted == [True] * 1_000 + [False]
    kept = [listener.queue.get_nowait() for _ in range(1_001)]
    assert kept[-1] is None
