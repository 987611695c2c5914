"""Grants on the inbox page: listed and revoked."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.domain.errors import NotFound
from slackbot.cards import parse_id
from slackbot.cards.limits import limit_words
from slackbot.reviewing import grants, limits
from slackbot.web.auth.visitors import Form, Signed
from slackbot.web.http.context import web_context
from slackbot.web.inbox.rendering import PageRoute, page, redirect_after_form

PATH = "page"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/inbox/grants")
async def show(request: Request, who: Signed) -> Response:
    """Serve the page of the grants that the visitor may revoke, and of the limits that they may see."""
    ctx = web_context(request)
    directory = ctx.slack.directory
    found = await limits.visible(ctx.db, ctx.services.policies.last_loaded, who.person)
    return page(
        "grants.html",
        here="grants",
        visitor=who,
        grants=await grants.revocable_lines(ctx.db, directory, who.person),
        limits=[limit_words(each) for each in found],
        names=await directory.names([who.person.user_id]),
    )


@router.post("/inbox/grants/{grant_id}/revoke")
async def revoke(request: Request, grant_id: str, who: Signed, _: Form) -> Response:
    """An ended grant is unchanged."""
    ctx, wanted = web_context(request), parse_id(grant_id)
    if wanted is None:
        raise NotFound(grant_id)
    await grants.revoke(ctx.db, ctx.slack.directory, who.person, wanted, PATH)
    return redirect_after_form("/inbox/grants")
