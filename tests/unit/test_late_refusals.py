"""Unknown callers wait for their refusal; nobody else does."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slackbot.web.http import late_refusals
from slackbot.web.http.late_refusals import LateRefusals


async def _answer(request: Request) -> Response:
    return PlainTextResponse("", int(request.path_params["status"]))


def _client() -> httpx.AsyncClient:
    app = LateRefusals(Starlette(routes=[Route("/{status}", _answer)]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://signoff")


async def test_a_stranger_waits_for_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 401 is held back until the pause is over, while a known caller is answered at once."""
    monkeypatch.setattr(late_refusals, "PAUSE", 3600.0)
    async with _client() as client:
        stranger = asyncio.create_task(client.get("/401"))
        for status in (200, 403, 404, 429, 503):
            assert (await client.get(f"/{status}")).status_code == status
        assert not stranger.done()
        stranger.cancel()
        monkeypatch.setattr(late_refusals, "PAUSE", 0.001)
        assert (await client.get("/401")).status_code == 401


async def test_few_refusals_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the refusal that has waited longest is sent, so a crowd takes no more memory than a few."""
    monkeypatch.setattr(late_refusals, "PAUSE", 3600.0)
    monkeypatch.setattr(late_refusals, "MOST", 2)
    async with _client() as client:
        calls = [asyncio.create_task(client.get("/401")) for _ in range(5)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        while len(waiting) > 2:
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert done == set(calls[:3])
        assert waiting == set(calls[3:])
        for call in waiting:
            call.cancel()
