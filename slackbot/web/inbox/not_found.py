"""The page for an address that does not exist."""

from __future__ import annotations

from fastapi import APIRouter

from agent.domain.errors import NotFound
from slackbot.web.auth.visitors import Signed
from slackbot.web.inbox.rendering import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/inbox/{rest:path}")
async def nowhere(rest: str, _: Signed) -> None:
    """The last route."""
    raise NotFound(rest)
