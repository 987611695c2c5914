"""A webhook's content: the request or run as the API shows it now, masked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.domain.outbound import OutboundMessage
from agent.domain.request_view import RequestView
from agent.store import views
from slackbot.reviewing.listing import without_secrets
from slackbot.web.api.shapes import Moment, PersonOut, ResponseModel, review, rfc3339
from slackbot.web.http.context import WebContext


class RunOut(ResponseModel):
    """The current state of a run."""

    id: UUID
    agent: str
    above: list[str]
    agent_version: str
    label: str | None
    task: str
    status: str
    cause: str | None
    answer: str | None
    requester: PersonOut | None
    created_at: Moment
    updated_at: Moment


async def content(ctx: WebContext, notice: OutboundMessage) -> dict[str, Any]:
    request = await view_of(ctx.db, notice.request_id)
    shown = await review(ctx, request) if request is not None else None
    run = await _run(ctx.db, notice.run_id)
    return {
        "id": str(notice.id),
        "event": notice.event.value,
        "created_at": rfc3339(notice.created_at),
        "request": shown.model_dump(mode="json") if shown is not None else None,
        "run": run.model_dump(mode="json") if run is not None else None,
    }


async def view_of(db: Database, request_id: UUID | None) -> RequestView | None:
    if request_id is None:
        return None
    return await db.read(views.request_view, request_id)


async def _run(db: Database, run_id: UUID | None) -> RunOut | None:
    if run_id is None:
        return None
    run = await db.read(views.run_view, run_id)
    return RunOut.copy_of((await without_secrets(db, [run]))[0]) if run else None
