"""`/pending`: programs ask for a review, wait for it, and take it back."""

from __future__ import annotations

import time
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agent import outside
from agent.domain.keys import Principal, Scope
from agent.domain.request import RequestStatus, RequestView
from agent.store import reads
from signoff.errors import Conflict
from slackbot.web import finding
from slackbot.web.asking import AgentName, AskIn, NotRequiredOut, ask
from slackbot.web.bodies import StrictRoute
from slackbot.web.callers import Asker, Reader
from slackbot.web.finding import RequestId
from slackbot.web.idempotency import IDEMPOTENT
from slackbot.web.problems import ProblemRaised, documented
from slackbot.web.shapes import After, Limit, Moment, Page, ReviewOut, page, review, reviews
from slackbot.web.site import Site, site_of

router = APIRouter(route_class=StrictRoute, tags=["Requests"])

LONGEST_WAIT = 300
"""Seconds that a call may wait. Many proxies cut a connection after a minute without a byte; not everybody has one."""


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

    The same question again (same `request_id`, same content) is answered with the same request.
    """
    site = site_of(request)
    opened = await ask(site, principal, body)
    if isinstance(opened, NotRequiredOut):
        response.status_code = 200
        return opened
    view = await site.views.get(opened.id)
    if view is None:
        raise finding.missing()
    response.status_code = 201 if opened.created else 200
    response.headers["Location"] = f"/pending/{view.id}"
    return await review(site, view)


@router.get("/pending", responses=documented(401, 403, 422, 429, 503))
async def list_requests(
    request: Request,
    principal: Reader,
    status: RequestStatus | None = None,
    agent: AgentName | None = None,
    since: Annotated[Moment | None, Query(description="Opened then or later.")] = None,
    mine: Annotated[bool, Query(description="Only what this key has opened.")] = False,
    limit: Limit = 50,
    cursor: After = None,
) -> Page[ReviewOut]:
    """Requests, newest first: with the scope `read` those of the team, else those that this key has opened."""
    site = site_of(request)
    sees_all = principal.may(Scope.READ) or principal.may(Scope.ADMIN)
    if not sees_all and not principal.may(Scope.REQUEST):
        words = f"The key {principal.key} does not have the scope {Scope.READ}."
        raise ProblemRaised(403, "scope-missing", "Scope missing", words)
    async with site.db.connection() as connection:
        ids = await reads.requests_page(
            connection,
            site.slack.team_id,
            principal=principal.name if mine or not sees_all else None,
            status=status,
            agent=agent,
            since=since,
            limit=limit,
            after=cursor,
        )
        views = await reads.request_views(connection, ids)
    return page(await reviews(site, views), ids[-1] if ids else None, limit)


@router.get("/pending/{request_id}", responses=documented(401, 403, 404, 409, 422, 429, 503))
async def read_request(
    request: Request,
    request_id: RequestId,
    principal: Reader,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the end of its waiting.")
    ] = 0,
) -> ReviewOut:
    """A request as it stands now, or as soon as it is no longer waiting."""
    site = site_of(request)
    view: RequestView | None = await finding.found(site, principal, request_id)
    if view is not None and wait and view.status is RequestStatus.WAITING:
        waited, view = (view.id, view.recorded), None  # thousands wait: nobody keeps what will be read again
        view = await _decided(site, *waited, wait)
    if view is None:
        raise finding.missing()
    return await review(site, view)


@router.delete("/pending/{request_id}", responses=documented(401, 403, 404, 409, 422, 429, 503))
async def withdraw_request(request: Request, request_id: RequestId, principal: Reader) -> ReviewOut:
    """Take the question back. Only the key that opened it can, or one with the scope `admin`."""
    site = site_of(request)
    view = await finding.found(site, principal, request_id)
    if view.principal != principal.name and not principal.may(Scope.ADMIN):
        words = f"The key {principal.key} did not open this request, so it cannot take it back."
        raise ProblemRaised(403, "not-yours", "Not yours", words)
    await _withdraw(site, principal, view)
    return await review(site, await _again(site, view))


async def _withdraw(site: Site, principal: Principal, view: RequestView) -> None:
    """Withdrawing twice is withdrawing once. Raises Conflict for what was decided."""
    if await outside.withdraw(site.db, view.id, principal):
        return
    now = await _again(site, view)
    if now.status is not RequestStatus.CANCELLED:
        raise Conflict(f"the request is {now.status} already; there is nothing to take back")


async def _decided(site: Site, request_id: UUID, recorded: int, seconds: float) -> RequestView | None:
    """The same request, once it waits no longer or the time is over. Holds nothing while it waits."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        now = await site.watch.request(request_id, recorded, left)
        view = await site.views.get(request_id)
        if now == str(recorded) or view is None or view.status is not RequestStatus.WAITING:
            return view
        recorded = view.recorded
        del view
    return await site.views.get(request_id)


async def _again(site: Site, view: RequestView) -> RequestView:
    return await site.views.get(view.id) or view
