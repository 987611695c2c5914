"""`/webhooks`: add, list and remove; replay or drop what was given up."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from agent.domain.outbound import OutboundEvent
from agent.usecases import webhooks
from slackbot.masking import NOT_SECRET
from slackbot.web.api.shapes import Moment, Page, RequestModel, ResponseModel, page
from slackbot.web.http.api_keys import Admin
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import web_context
from slackbot.web.http.idempotency import has_secret
from slackbot.web.http.one_list import After, Limit
from slackbot.web.http.problems import ProblemRaised, documented

router = APIRouter(prefix="/webhooks", route_class=StrictRoute, tags=["Webhooks"])

Name = Annotated[str, Path(description="The webhook's name.", examples=["ops"])]


class WebhookIn(RequestModel):
    """A webhook to add."""

    name: Annotated[str, NOT_SECRET] = Field(examples=["ops"])
    url: str = Field(examples=["https://example.com/signoff"])
    events: list[OutboundEvent] = Field(
        default=list(OutboundEvent),
        min_length=1,
        max_length=10,
        description="The events it receives; all by default.",
    )


class WebhookAdded(ResponseModel):
    """The secret that signs every delivery. It is shown only once."""

    name: str
    secret: str


class WebhookOut(ResponseModel):
    """A webhook and its delivery state."""

    name: str
    url: str
    events: list[OutboundEvent]
    created_by: str
    created_at: Moment
    pending: int
    dead: int
    last_sent_at: Moment | None


class DeadNoticeOut(ResponseModel):
    """A message that was given up after a day of attempts, or because its receiver is gone."""

    id: UUID
    target: str
    event: OutboundEvent
    request_id: UUID | None
    run_id: UUID | None
    attempts: int
    error: str | None
    created_at: Moment


@router.post(
    "",
    status_code=201,
    dependencies=[Depends(has_secret)],
    operation_id="add_webhook",
    responses=documented(400, 401, 403, 409, 413, 422, 429, 503),
)
async def add(request: Request, admin: Admin, new: WebhookIn) -> WebhookAdded:
    """Send these events to an address from now on."""
    ctx = web_context(request)
    try:
        secret = await webhooks.add(
            ctx.db, new.name, new.url, new.events, by=admin.name, allowed=ctx.webhook_networks
        )
    except webhooks.WebhookRejected as error:
        raise ProblemRaised(422, "invalid", "Invalid", str(error)) from None
    return WebhookAdded(name=new.name, secret=secret)


@router.get("", responses=documented(401, 403, 422, 429, 503))
async def list_webhooks(request: Request, admin: Admin) -> Page[WebhookOut]:  # noqa: ARG001
    """All webhooks, without their secrets."""
    return Page(
        items=[WebhookOut.copy_of(line) for line in await webhooks.list_webhooks(web_context(request).db)]
    )


@router.delete(
    "/{name}",
    status_code=204,
    response_class=Response,
    operation_id="remove_webhook",
    responses=documented(401, 403, 404, 422, 429, 503),
)
async def remove(request: Request, admin: Admin, name: Name) -> None:
    """Remove a webhook, with its pending deliveries."""
    await webhooks.remove(web_context(request).db, name, by=admin.name)


@router.get("/dead", operation_id="list_dead_notices", responses=documented(401, 403, 422, 429, 503))
async def list_dead(
    request: Request,
    admin: Admin,  # noqa: ARG001
    limit: Limit = 50,
    after: After = None,
) -> Page[DeadNoticeOut]:
    """Messages that were given up, webhooks and e-mail, latest first."""
    found = await webhooks.list_dead(web_context(request).db, limit, after)
    return page(
        [DeadNoticeOut.copy_of(each) for each in found], found[-1].id if len(found) >= limit else None
    )


@router.post(
    "/dead/{notice_id}/replay",
    status_code=202,
    response_class=Response,
    operation_id="replay_dead_notice",
    responses=documented(401, 403, 404, 422, 429, 503),
)
async def replay(request: Request, admin: Admin, notice_id: UUID) -> None:  # noqa: ARG001
    """Send it again, with a fresh series of attempts."""
    await webhooks.replay(web_context(request).db, notice_id)
