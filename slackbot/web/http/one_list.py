"""One list per key at a time: a page may take a megabyte, and all callers share one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request

from agent.domain.api_keys import Principal
from slackbot.web.http.api_keys import Reader
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.problems import retry_later

WAIT = 5.0
"""Seconds to wait for an earlier list."""

Limit = Annotated[int, Query(ge=1, le=200, description="How many items a page has.")]
After = Annotated[UUID | None, Query(alias="cursor", description="`next` of the previous page.")]


@asynccontextmanager
async def one_list(ctx: WebContext, caller: Principal) -> AsyncIterator[None]:
    """Raises ProblemRaised (429) while another list of this key is made."""
    turn = ctx.list_turns.setdefault(caller.name, asyncio.Lock())
    try:
        async with asyncio.timeout(WAIT):
            await turn.acquire()
    except TimeoutError:
        words = f"Another list is in progress for the key {caller.key}; a key gets one at a time."
        raise retry_later("list-under-way", "A list is in progress", words, 1, status=429) from None
    try:
        yield
    finally:
        turn.release()


async def _one_list(request: Request, caller: Reader) -> AsyncIterator[None]:
    async with one_list(web_context(request), caller):
        yield


ONE_LIST = Depends(_one_list)
"""For `dependencies` of a route that is a list from its beginning to its end."""
