"""What happens in one run, as server-sent events: from its start to its end, for who may see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from slackbot.web.api import events
from tests.integration.service.conftest import until
from tests.integration.web.living import ADA, LINUS, Living, living
from tests.integration.web.test_events import Stream, seen

PAGE = {"Origin": "https://app.example.com"}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents; one foreign page may call its API."""
    async with living(
        database_url, SIGNOFF_CORS_ORIGINS="https://app.example.com http://localhost:5173"
    ) as opened:
        yield opened


@asynccontextmanager
async def follow(client: httpx.AsyncClient, run: str, last: str | None = None) -> AsyncIterator[Stream]:
    headers = PAGE | ({"Last-Event-ID": last} if last else {})
    async with client.stream("GET", f"/runs/{run}/events", headers=headers) as answer:
        yield Stream(answer)


async def begin(client: httpx.AsyncClient, task: str = "plant a secret tree") -> str:
    """Start an agent that asks before it does anything; returns its run."""
    started = await client.post("/agents", json={"name": "durable-task", "task": task})
    return str(started.json()["agent_id"])


async def test_a_run_is_told_from_its_start_to_its_end(service: Living) -> None:
    """Its key follows the run and its requests, and nothing of other runs; after a break nothing is missing, and after
    the last event the stream ends for good.
    """
    asker, grace = await service.asker(), await service.reviewer()
    run, other = await begin(asker), await begin(asker, "another")
    async with follow(asker, run) as feed:
        assert feed.answer.headers["content-type"].startswith("text/event-stream")
        assert feed.answer.headers["access-control-allow-origin"] == PAGE["Origin"]
        begun = await feed.next()
        opened = await feed.until("request.opened", status="waiting", run_id=run)
        await service.becomes(grace, other, "pending_approval")
        await grace.post(f"/agents/{other}/respond", json={"response": "deny"})
        await service.becomes(grace, other, "denied")
    assert begun is not None
    assert (begun["event"], begun["data"]["status"]) == ("run.changed", "working")
    await grace.post(f"/agents/{run}/respond", json={"response": "approve"})
    async with follow(asker, run, opened["id"]) as feed:
        rest = []
        while (each := await feed.next()) is not None:  # the stream ends with the run
            rest.append(each)
    assert {each["data"]["run_id"] for each in rest} == {run}
    assert len({each["id"] for each in rest} | {opened["id"]}) == len(rest) + 1
    assert {"request.decided", "request.changed"} <= {each["event"] for each in rest}
    assert (rest[-1]["data"]["kind"], rest[-1]["data"]["status"]) == ("run.ended", "completed")
    assert "tree" not in str([begun, opened, *rest])
    over = await asker.get(f"/runs/{run}/events", headers={"Last-Event-ID": rest[-1]["id"]})
    assert (over.status_code, over.content) == (204, b"")


async def test_who_may_not_see_a_run_hears_nothing_of_it(
    service: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key is answered as if there were no such run; silence is filled; a revoked key gets no more."""
    monkeypatch.setattr(events, "HEARTBEAT", 0.2)
    run = await begin(await service.asker())
    stranger = await service.program("stranger", Scope.REQUEST, owner=LINUS)
    missing = await stranger.get("/runs/01980000-0000-7000-8000-000000000000/events")
    hidden = await stranger.get(f"/runs/{run}/events")
    assert (hidden.status_code, hidden.json()) == (404, missing.json())
    second = await service.program("second", Scope.READ)
    async with follow(second, run) as feed:
        await feed.until("request.opened")
        silent = asyncio.create_task(feed.next())
        await seen(lambda: feed.comments >= 2)
        await api_keys.revoke(service.house.db, "second", by="test")
        assert await silent is None


async def test_a_key_has_so_many_streams(service: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is a problem with that reason; a stream that has ended makes room, and other keys have their own."""
    monkeypatch.setattr(events, "MAX_STREAMS", 1)
    asker, grace = await service.asker(), await service.reviewer()
    run = await begin(asker)
    async with follow(grace, run) as feed:
        await feed.next()
        refused = await grace.get("/events")
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:signoff:too-many-streams")
        assert "retry-after" in refused.headers
        async with follow(asker, run) as others:
            assert await others.next() is not None

    async def is_free() -> bool:
        async with grace.stream("GET", "/events") as answer:
            return answer.status_code == 200

    await until(is_free)


async def test_only_named_pages_call_the_api(service: Living) -> None:
    """A preflight is answered for origins that are named, exactly; never with cookies; our own pages are no API."""
    asks = {
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization, last-event-id",
    }
    async with httpx.AsyncClient(base_url=service.url, trust_env=False) as page:
        allowed = await page.options("/runs/x/events", headers=PAGE | asks)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE["Origin"]
        assert "last-event-id" in allowed.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-credentials" not in allowed.headers
        for origin in ("https://app.example.com.evil.net", "https://sub.app.example.com", "null"):
            refused = await page.options("/pending", headers=asks | {"Origin": origin})
            assert "access-control-allow-origin" not in refused.headers
            answer = await page.get("/pending", headers={"Origin": origin})
            assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (401, False)
        unknown = await page.get("/pending", headers=PAGE)  # errors can be read, too
        assert (unknown.status_code, unknown.headers["access-control-allow-origin"]) == (401, PAGE["Origin"])
        for path in ("/", "/inbox", "/inbox/events", "/sign-in", "/healthz", "/docs", "/openapi.json"):
            for answer in (await page.get(path, headers=PAGE), await page.options(path, headers=PAGE | asks)):
                assert "access-control-allow-origin" not in answer.headers


async def test_no_page_is_named_by_default(database_url: str) -> None:
    """Without the setting the API answers as if there were no other origins."""
    async with living(database_url) as service:
        asker = await service.program("asker", Scope.REQUEST, owner=ADA)
        answer = await asker.get("/pending", headers=PAGE)
        preflight = await asker.options("/pending", headers=PAGE | {"Access-Control-Request-Method": "GET"})
    assert (answer.status_code, preflight.status_code) == (200, 405)
    assert "access-control-allow-origin" not in answer.headers
