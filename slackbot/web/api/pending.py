"""`/pending`: programs ask, list, read and withdraw requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agent.domain.api_keys import Principal, Scope
from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from agent.store import views
from agent.usecases import requests
from signoff.errors import Conflict
from slackbot.web.api import request_lookup
from slackbot.web.api.open_request import AgentName, AskIn, NotRequiredOut, ask
from slackbot.web.api.request_lookup import RequestId
from slackbot.web.api.shapes import (
    Length,
    Moment,
    Page,
    ReviewOut,
    length_schema,
    page,
    review,
    reviews,
)
from slackbot.web.http.api_keys import Asker, Lister, Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.head import is_head
from slackbot.web.http.idempotency import IDEMPOTENT
from slackbot.web.http.long_polls import LongPoll, Waiting, waited
from slackbot.web.http.one_list import After, Limit, one_list
from slackbot.web.http.problems import ProblemRaised, documented, invalid

router = APIRouter(route_class=StrictRoute, tags=["Requests"])

LONGEST_WAIT = 300
"""Seconds. Many proxies cut connections after a silent minute, but not every caller has one."""

MOST_NAMED = 100
"""Ids in one address: many proxies cut it at 8 KB."""

Wait = Annotated[
    Length,
    Query(ge=0, le=LONGEST_WAIT, description="How long to wait for the decision."),
    length_schema(0, LONGEST_WAIT),
]


@router.post(
    "/pending",
    status_code=201,
    dependencies=[IDEMPOTENT],
    response_model=ReviewOut | NotRequiredOut,
    responses={
        200: {
            "model": ReviewOut | NotRequiredOut,
            "description": "It was asked before, or nobody has to be asked",
        },
        **documented(400, 401, 403, 409, 413, 422, 429, 503),
    },
)
async def open_request(
    request: Request, response: Response, principal: Asker, body: AskIn
) -> ReviewOut | NotRequiredOut:
    """Ask people for a review.

    Repeating a question (same `request_id`, same content) returns the same request.
    """
    ctx = web_context(request)
    opened = await ask(ctx, principal, body, len(await request.body()))
    if isinstance(opened, NotRequiredOut):
        response.status_code = 200
        return opened
    view = await ctx.snapshots.get(opened.request_id)
    if view is None:
        raise request_lookup.not_found()
    response.status_code = 201 if opened.created else 200
    response.headers["Location"] = f"/pending/{view.id}"
    return await review(ctx, await _handed_over(ctx, principal, view), principal)


@router.get("/pending", responses=documented(401, 403, 422, 429, 503))
async def list_requests(
    request: Request,
    response: Response,
    principal: Lister,
    status: RequestStatus | None = None,
    agent: AgentName | None = None,
    since: Annotated[Moment | None, Query(description="Opened at that time or later.")] = None,
    mine: Annotated[bool, Query(description="Only what this key has opened.")] = False,
    named: Annotated[
        list[UUID] | None,
        Query(alias="id", max_length=MOST_NAMED, description="Only these, by the service's `id`; repeat it."),
    ] = None,
    wait: Wait = 0,
    limit: Limit = 50,
    cursor: After = None,
) -> Page[ReviewOut]:
    """Requests, newest first: the team's with the scope `read`, otherwise those that this key opened.

    A page ends after `limit` items or about a megabyte; `next` is present while there are more. A key gets one list at
    a time. With `wait` the list comes once all requests named by `id` are decided, or after that time; earlier with
    `Retry-After`, when the key has as many calls waiting as the service allows.
    """
    ctx = web_context(request)
    opener = principal.name if mine or not principal.sees_all else None
    if wait:
        if not named:
            raise invalid(("query.wait", "needs the `id` of each request to wait for"))
        with ctx.places.place(request, principal.name) as place:
            decided = await _all_decided(ctx, opener, named, wait if place.granted else 0)
        if not decided:
            place.cut_short(response, stopping=ctx.watch.closing)
    async with one_list(ctx, principal):
        async with ctx.db.connection() as connection:
            listed = await views.requests_page(
                connection,
                ctx.slack.team_id,
                principal=opener,
                status=status,
                agent=agent,
                since=since,
                ids=named,
                limit=limit,
                after=cursor,
            )
            found = await views.request_views(connection, listed.ids)
        if not is_head(request):
            found = await asyncio.gather(*(_handed_over(ctx, principal, each) for each in found))
        return page(await reviews(ctx, found, principal), listed.next)


@router.get(
    "/pending/{request_id}", response_model=ReviewOut, responses=documented(401, 403, 404, 409, 422, 429, 503)
)
async def read_request(
    request: Request,
    request_id: RequestId,
    principal: Reader,
    response: Response,
    wait: Wait = 0,
) -> ReviewOut | Waiting:
    """The current state of a request; with `wait`, as soon as it no longer waits.

    A request that still waits comes at once, with `Retry-After`, when the key has as many calls waiting as the service
    allows: ask again after that time.
    """
    ctx, poll = web_context(request), waited(request)
    view: RequestView | None
    if poll is None:
        view = await request_lookup.find_visible_request(ctx, principal, request_id)
    else:  # it was visible when the wait began
        view = await ctx.snapshots.get(poll.request_id)
    if view is None:
        raise request_lookup.not_found()
    if wait and view.status is RequestStatus.WAITING:
        poll = poll or LongPoll(view.id, time.monotonic() + wait, ctx.places.place(request, principal.name))
        if poll.goes_on(view.recorded):
            return Waiting(poll, ctx.watch.request)
        poll.place.cut_short(response, stopping=ctx.watch.closing)
    shown = view if is_head(request) else await _handed_over(ctx, principal, view)
    return await review(ctx, shown, principal)


@router.delete("/pending/{request_id}", responses=documented(401, 403, 404, 409, 422, 429, 503))
async def withdraw_request(request: Request, request_id: RequestId, principal: Reader) -> ReviewOut:
    """Withdraw the request. Allowed for the key that opened it, and for keys with the scope `admin`."""
    ctx = web_context(request)
    view = await request_lookup.find_visible_request(ctx, principal, request_id)
    if view.principal != principal.name and not principal.may(Scope.ADMIN):
        words = f"The key {principal.key} did not open this request, so it cannot withdraw it."
        raise ProblemRaised(403, "not-yours", "Not yours", words)
    await _withdraw(ctx, principal, view)
    return await review(ctx, await _again(ctx, view))


async def _withdraw(ctx: WebContext, principal: Principal, view: RequestView) -> None:
    """Idempotent. Raises Conflict if the request was decided."""
    words = f"withdrawn by the program that asked ({principal.name})"
    if await requests.withdraw(ctx.db, view.id, None, words, principal=principal.name):
        return
    now = await _again(ctx, view)
    if now.status is not RequestStatus.CANCELLED:
        raise Conflict(f"the request is already {now.status}; there is nothing to withdraw")


async def _all_decided(ctx: WebContext, opener: str | None, ids: Sequence[UUID], seconds: float) -> bool:
    """Whether all are decided within ``seconds``: so one of them is watched, then one of those that are left."""
    deadline = time.monotonic() + seconds
    while waiting := await _waiting(ctx, opener, ids):
        (first, recorded), left = waiting[0], deadline - time.monotonic()
        if left <= 0 or await ctx.watch.request(first, recorded, left) == str(recorded):
            return False
        ids = [request_id for request_id, _ in waiting]
    return True


async def _waiting(ctx: WebContext, opener: str | None, ids: Sequence[UUID]) -> list[tuple[UUID, int]]:
    """Those that wait, with the number of their audit entries; only this opener's, if one is given."""
    found = await asyncio.gather(*(ctx.snapshots.get(each) for each in ids))
    return [
        (view.id, view.recorded)
        for view in found
        if view is not None
        and view.status is RequestStatus.WAITING
        and view.team_id == ctx.slack.team_id
        and opener in (None, view.principal)
    ]


async def _handed_over(ctx: WebContext, principal: Principal, view: RequestView) -> RequestView:
    """Record first that the asker reads an approval: it may then act without a claim."""
    if view.principal != principal.name or view.lapse_at is None or view.handed_over_at is not None:
        return view
    at = await ctx.hand_overs.join(view.id)
    return await _again(ctx, view) if at is None else replace(view, handed_over_at=at)


async def _again(ctx: WebContext, view: RequestView) -> RequestView:
    return await ctx.snapshots.get(view.id) or view
