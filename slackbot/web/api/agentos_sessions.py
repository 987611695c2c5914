"""The conversations of a key, in AgentOS' format."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator

from agent.domain.api_keys import Principal
from agent.domain.errors import NotFound
from agent.domain.run import RunView
from agent.store import views
from slackbot.reviewing.listing import without_secrets
from slackbot.web.api.agentos_shapes import AgentOSRun, ToolExecution
from slackbot.web.api.agno_shapes import AgentOSStatus, known_run, session_of, user_of
from slackbot.web.api.run_starts import run_for
from slackbot.web.api.shapes import Moment, ResponseModel
from slackbot.web.http.api_keys import Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.one_list import ONE_LIST
from slackbot.web.http.problems import documented

router = APIRouter(prefix="/agentos", route_class=StrictRoute, tags=["AgentOS"])

_PROBLEMS = documented(401, 403, 404, 422, 429, 503)
NO_SUCH_SESSION = "There is no such session, or this key did not start it."
WantedStatus = Annotated[AgentOSStatus, BeforeValidator(str.upper)]
"""In upper or lower case, like AgentOS."""

NAME = 100
"""Characters of the first message used as the session's name."""


class SessionLine(ResponseModel):
    """A session in a list."""

    session_id: str
    session_name: str
    session_type: Literal["agent"] = "agent"
    agent_id: str
    user_id: str | None
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, first: RunView, last: RunView, **more: Any) -> Self:
        return cls(
            session_id=session_of(first),
            session_name=first.task[:NAME],
            agent_id=first.agent,
            user_id=user_of(first),
            created_at=first.created_at,
            updated_at=last.updated_at,
            **more,
        )


class SessionDetails(SessionLine):
    """A session with its messages, as far as its runs record them: each first message and each answer."""

    agent_session_id: str
    chat_history: list[dict[str, str]]


class SessionRun(ResponseModel):
    """A run of a session."""

    run_id: UUID
    agent_id: str
    user_id: str | None = None
    status: AgentOSStatus
    run_input: str
    content: str | None = None
    run_response_format: Literal["text"] = "text"
    tools: list[ToolExecution] | None = None
    created_at: Moment

    @classmethod
    def of(cls, run: AgentOSRun, created_at: Moment) -> SessionRun:
        words = run.input.input_content
        return cls.copy_of(run, run_input=words, tools=run.tools or None, created_at=created_at)


class PageInfo(ResponseModel):
    """The position of this page; counts stop at 1,000."""

    page: int
    limit: int
    total_pages: int
    total_count: int
    search_time_ms: float


class SessionPage(ResponseModel):
    """A page of sessions, newest first."""

    data: list[SessionLine]
    meta: PageInfo


@router.get(
    "/sessions",
    operation_id="agentos_sessions",
    dependencies=[ONE_LIST],
    responses=documented(401, 403, 422, 429, 503),
)
async def sessions(
    request: Request,
    caller: Reader,
    kind: Annotated[str, Query(alias="type", max_length=20)] = "agent",
    component_id: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
) -> SessionPage:
    """Sessions that this key started. There are none of teams or workflows."""
    began = time.monotonic()
    ctx = web_context(request)
    found: list[RunView] = []
    count = 0
    if kind == "agent":
        found, count = await ctx.db.read(
            views.sessions_of, caller.name, component_id, limit=limit, skip=(page - 1) * limit
        )
    return SessionPage(
        data=[SessionLine.of(each, each) for each in await without_secrets(ctx.db, found)],
        meta=PageInfo(
            page=page,
            limit=limit,
            total_pages=-(-count // limit),
            total_count=count,
            search_time_ms=round((time.monotonic() - began) * 1000, 3),
        ),
    )


@router.get(
    "/sessions/{session_id}",
    operation_id="agentos_session",
    dependencies=[ONE_LIST],
    responses=_PROBLEMS,
)
async def session(request: Request, session_id: str, caller: Reader) -> SessionDetails:
    """One session. A run without a session has one named after the run."""
    ctx = web_context(request)
    known = [await known_run(ctx, each) for each in await _runs(ctx, caller, session_id)]
    said: list[dict[str, str]] = []
    for each in known:
        said.append({"role": "user", "content": each.run.task})
        if each.content:
            said.append({"role": "assistant", "content": each.content})
    first, last = known[0].run, known[-1].run
    return SessionDetails.of(first, last, agent_session_id=session_of(first), chat_history=said)


@router.get(
    "/sessions/{session_id}/runs",
    operation_id="agentos_session_runs",
    response_model_exclude_none=True,
    dependencies=[ONE_LIST],
    responses=_PROBLEMS,
)
async def session_runs(
    request: Request,
    session_id: str,
    caller: Reader,
    status: Annotated[list[WantedStatus] | None, Query()] = None,
) -> list[SessionRun]:
    """The runs of a session, oldest first."""
    ctx = web_context(request)
    listed = [await _run(ctx, each) for each in await _runs(ctx, caller, session_id)]
    return [each for each in listed if not status or each.status in status]


@router.get(
    "/sessions/{session_id}/runs/{run_id}",
    operation_id="agentos_session_run",
    response_model_exclude_none=True,
    responses=_PROBLEMS,
)
async def session_run(request: Request, session_id: str, run_id: UUID, caller: Reader) -> SessionRun:
    """One run of a session."""
    ctx = web_context(request)
    if run_id not in await _runs(ctx, caller, session_id):
        raise NotFound(NO_SUCH_SESSION)
    return await _run(ctx, run_id)


async def _runs(ctx: WebContext, caller: Principal, session_id: str) -> list[UUID]:
    """At least one run. Raises NotFound."""
    found = await ctx.db.read(views.runs_of_session, caller.name, session_id)
    if found:
        return found
    try:
        run_id = UUID(session_id)
    except ValueError:
        raise NotFound(NO_SUCH_SESSION) from None
    line = await run_for(ctx, caller, run_id)
    if line.run.session_id is not None:
        raise NotFound(NO_SUCH_SESSION)
    return [run_id]


async def _run(ctx: WebContext, run_id: UUID) -> SessionRun:
    known = await known_run(ctx, run_id)
    return SessionRun.of(AgentOSRun.of(known), known.run.created_at)
