"""`/agentos`: the API that Agno's AgentOS client (`agno.client.AgentOSClient`) calls, in AgentOS's exact format.

It differs in who decides: a reviewer's own key confirms tools, never the key that asked, and only with the original
arguments.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import getdoc
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BeforeValidator, Field

from agent.domain.api_keys import Principal
from agent.domain.run import CallState
from agent.store import views
from slackbot.web.api import events
from slackbot.web.api.agentos_shapes import (
    Accepted,
    AgentDetails,
    AgentOSRun,
    Health,
    OSConfig,
    ToolExecution,
)
from slackbot.web.api.agents import IdempotencyKey, Key, SessionName, stop_run
from slackbot.web.api.agno_runs import (
    AgentName,
    Decisions,
    Message,
    Wait,
    check_run,
    confirm,
    latest_run,
    say,
    settled,
)
from slackbot.web.api.agno_shapes import KnownRun, known_run
from slackbot.web.api.events import Events, Presented, stream_place
from slackbot.web.api.run_events import may_still_see
from slackbot.web.api.run_starts import agent_named
from slackbot.web.http.api_keys import Asker, Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.form_or_json import form_or_json, openapi_body
from slackbot.web.http.places import StreamPlace
from slackbot.web.http.problems import documented

router = APIRouter(prefix="/agentos", route_class=StrictRoute, tags=["AgentOS"])

OS_ID = "signoff"
_STARTED = datetime.now(UTC)

_READ = documented(401, 403, 404, 422, 429, 503)
_POST = documented(401, 403, 404, 409, 413, 415, 422, 429, 503)
_EVENT = {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}}
_RUN: dict[int | str, dict[str, Any]] = {
    200: {
        "model": AgentOSRun,
        "content": {"text/event-stream": {"schema": _EVENT}},
        "description": "The run, or its events",
    },
}

Given = Annotated[SessionName | None, BeforeValidator(lambda value: value or None)]
"""Empty is the same as missing."""
Session = Annotated[SessionName | None, BeforeValidator(lambda value: value or None)]
SessionId = Annotated[Key | None, Query(description="The run's session; any other is refused.")]

_BEGUN = (CallState.CLAIMED, CallState.DELEGATED, CallState.IN_DOUBT, CallState.ANSWERED)


class AgentOSStart(Message):
    """A message for the agent. Without `session_id`, a new session begins."""

    session_id: Annotated[Session, Field(examples=["test_session"])] = None
    user_id: Annotated[Given, Field(examples=[None])] = None
    stream: Annotated[bool, Field(examples=[False])] = True
    background: bool = False


class AgentOSContinue(Decisions):
    """Decisions on the calls that the run waits for. Calls that are missing, or without `confirmed`, keep waiting."""

    session_id: Session = None
    user_id: Given = None
    stream: Annotated[bool, Field(examples=[False])] = True


async def health() -> Health:
    """This process answers. It needs no key; `/readyz` says more."""
    return Health(status="ok", instantiated_at=_STARTED)


router.add_api_route("/health", health, route_class_override=APIRoute, include_in_schema=False)


@router.get("/config", operation_id="agentos_config", response_model_exclude_none=True, responses=_READ)
async def config(request: Request, _: Reader) -> OSConfig:
    """The agents of this service. There are no teams, workflows or interfaces."""
    agents = list(web_context(request).services.registry)
    models = dict.fromkeys(each.model for each in agents if each.model)
    return OSConfig(
        os_id=OS_ID,
        name="Signoff",
        description="Agents whose tools people confirm",
        available_models=[{"id": each} for each in models],
        databases=[],
        agents=[AgentDetails.of(each) for each in agents],
        teams=[],
        workflows=[],
        interfaces=[],
    )


@router.get("/agents", operation_id="agentos_agents", response_model_exclude_none=True, responses=_READ)
async def agents(request: Request, _: Reader) -> list[AgentDetails]:
    """The agents that can be started."""
    return [AgentDetails.of(each) for each in web_context(request).services.registry]


@router.get(
    "/agents/{agent_name}", operation_id="agentos_agent", response_model_exclude_none=True, responses=_READ
)
async def agent(request: Request, agent_name: AgentName, _: Reader) -> AgentDetails:
    """One agent with its tools."""
    return AgentDetails.of(agent_named(web_context(request), agent_name))


@router.post(
    "/agents/{agent_name}/runs",
    operation_id="agentos_run",
    response_model=AgentOSRun,
    response_model_exclude_none=True,
    responses={**_RUN, 202: {"model": Accepted, "description": "It continues in the background"}, **_POST},
    openapi_extra=openapi_body(AgentOSStart),
)
async def start_run(
    request: Request,
    agent_name: AgentName,
    body: Annotated[AgentOSStart, Depends(form_or_json(AgentOSStart))],
    caller: Asker,
    presented: Presented,
    response: Response,
    wait: Wait = 50.0,
    key: IdempotencyKey = None,
) -> AgentOSRun | Response:
    """Send a message to an agent. With `stream`, returns events; otherwise the run, as soon as it pauses or ends.

    `user_id` comes back as it was sent; a session takes no other. With a key of scope `on_behalf` a Slack user id names
    the requester; any other value names nobody in Slack.
    """
    ctx = web_context(request)
    session_id = body.session_id or str(uuid4())
    with _place(request, caller, wanted=body.stream) as place:
        before = await latest_run(ctx, caller, agent_name, body.session_id) if place else None
        known_calls = await ended_tools(ctx, before) if before else set()
        run_id = await say(ctx, caller, agent_name, body.model_copy(update={"session_id": session_id}), key)
    if place is not None:
        return Events(run_stream(ctx, run_id, presented.credentials, "RunStarted", known_calls), place)
    if body.background:
        accepted = Accepted(run_id=run_id, session_id=session_id, status="PENDING")
        return JSONResponse(accepted.model_dump(mode="json"), 202)
    return AgentOSRun.of(await settled(request, response, caller, run_id, wait))


@router.get(
    "/agents/{agent_name}/runs/{run_id}",
    operation_id="agentos_get_run",
    response_model_exclude_none=True,
    responses=_READ,
)
async def get_run(
    request: Request, agent_name: AgentName, run_id: UUID, caller: Reader, session_id: SessionId = None
) -> AgentOSRun:
    """The current state of a run."""
    ctx = web_context(request)
    await check_run(ctx, caller, agent_name, run_id, session_id)
    return AgentOSRun.of(await known_run(ctx, run_id))


@router.post(
    "/agents/{agent_name}/runs/{run_id}/continue",
    operation_id="agentos_continue",
    description=getdoc(confirm),
    response_model=AgentOSRun,
    response_model_exclude_none=True,
    responses={**_RUN, **_POST},
    openapi_extra=openapi_body(AgentOSContinue),
)
async def continue_run(
    request: Request,
    agent_name: AgentName,
    run_id: UUID,
    body: Annotated[AgentOSContinue, Depends(form_or_json(AgentOSContinue))],
    caller: Reader,
    presented: Presented,
    response: Response,
    wait: Wait = 50.0,
) -> AgentOSRun | Response:
    """Confirm or reject tool calls as the owner of this key."""
    ctx = web_context(request)
    await check_run(ctx, caller, agent_name, run_id, body.session_id)
    with _place(request, caller, wanted=body.stream) as place:
        known_calls = await ended_tools(ctx, run_id) if place else set()
        await confirm(ctx, caller, run_id, body.tools)
    if place is not None:
        return Events(run_stream(ctx, run_id, presented.credentials, "RunContinued", known_calls), place)
    return AgentOSRun.of(await settled(request, response, caller, run_id, wait))


@router.post("/agents/{agent_name}/runs/{run_id}/cancel", operation_id="agentos_cancel", responses=_POST)
async def cancel_run(request: Request, agent_name: AgentName, run_id: UUID, caller: Reader) -> dict[str, Any]:
    """Cancel a run: completed calls stay done, open requests are withdrawn. A run that has ended is unchanged."""
    ctx = web_context(request)
    await stop_run(ctx, caller, await check_run(ctx, caller, agent_name, run_id))
    return {}


@contextmanager
def _place(request: Request, caller: Principal, *, wanted: bool) -> Iterator[StreamPlace | None]:
    """Reserve a stream before anything takes effect; released if the block fails."""
    place = stream_place(request, caller) if wanted else None
    try:
        yield place
    except BaseException:
        if place is not None:
            place.give_back()
        raise


async def ended_tools(ctx: WebContext, run_id: UUID) -> set[UUID]:
    """Return the ids of a run's tool calls that have a result, so that a stream does not repeat them."""
    return {each.tool_call_id for each in (await known_run(ctx, run_id)).tools if each.result is not None}


async def run_stream(
    ctx: WebContext, run_id: UUID, secret: str, first: str, known_calls: set[UUID]
) -> AsyncIterator[str]:
    """The run's events, starting with ``first``, without those of ``known_calls``.

    Holds no thread, and a connection only while reading. The run does not depend on the stream.
    """
    seen: str | None = None
    started, ended = set(known_calls), set(known_calls)
    yield AgentOSRun.of(await known_run(ctx, run_id)).event(first)
    checked = time.monotonic()
    while not ctx.watch.closing:
        token = await ctx.watch.run(run_id, seen, events.HEARTBEAT)
        if token == seen or time.monotonic() - checked > events.HEARTBEAT:
            if not await may_still_see(ctx, secret, run_id):
                return
            checked = time.monotonic()
            yield ": still here\n\n"
        seen = token
        async with ctx.db.connection() as connection:  # before reading, to include the final events
            busy = await views.is_busy(connection, run_id)
        known = await known_run(ctx, run_id)
        run = AgentOSRun.of(known)
        for line in _tool_events(known, run, started, ended):
            yield line
        if not busy and run.status != "RUNNING":
            for line in _last_events(run):
                yield line
            return


def _tool_events(known: KnownRun, run: AgentOSRun, started: set[UUID], ended: set[UUID]) -> list[str]:
    """New tool events, marked as sent. Tools that did not run have none."""
    lines = []
    for tool, execution in zip(known.tools, run.tools, strict=True):
        ran = tool.result is not None
        if (
            tool.tool_call_id not in started
            and tool.state in _BEGUN
            and (ran or not _is_answered(tool.state))
        ):
            started.add(tool.tool_call_id)
            lines.append(run.event("ToolCallStarted", tool=_json(execution)))
        if tool.tool_call_id not in ended and ran:
            ended.add(tool.tool_call_id)
            lines.append(run.event("ToolCallCompleted", tool=_json(execution), content=execution.result))
            if execution.tool_call_error:
                lines.append(run.event("ToolCallError", tool=_json(execution), error=execution.result))
    return lines


def _last_events(run: AgentOSRun) -> list[str]:
    match run.status:
        case "PAUSED":
            asked = [each.model_dump(mode="json", exclude_none=True) for each in run.requirements or ()]
            tools = [_json(each) for each in run.tools]
            return [run.event("RunPaused", tools=tools, requirements=asked, content=run.content)]
        case "COMPLETED":
            content = {"content": run.content, "content_type": run.content_type}
            return [
                run.event("RunContent", **content),
                run.event("RunContentCompleted"),
                run.event("RunCompleted", **content),
            ]
        case "ERROR":
            return [run.event("RunError", content=run.content)]
        case _:
            return [run.event("RunCancelled", reason=run.content)]


def _is_answered(state: CallState) -> bool:
    return state is CallState.ANSWERED


def _json(execution: ToolExecution) -> dict[str, Any]:
    return execution.model_dump(mode="json")
