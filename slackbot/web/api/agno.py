"""`/runs` in the format of Agno's AgentOS: start a run, see it pause, confirm its tools, continue.

A reviewer's own key confirms tools, never the key that asked, and only with the original arguments.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, StringConstraints

from slackbot.web.api.agents import IdempotencyKey, Key, SessionName, Task
from slackbot.web.api.agno_runs import Confirmations, check_agent, confirm, say, until_settled
from slackbot.web.api.agno_shapes import AgentOut, RunOutput, run_output
from slackbot.web.api.run_starts import agent_named
from slackbot.web.http.api_keys import Asker, Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import web_context
from slackbot.web.http.form_or_json import form_or_json, from_text, openapi_body
from slackbot.web.http.problems import documented

router = APIRouter(route_class=StrictRoute, tags=["Runs in Agno's format"])

LONGEST = 60.0
"""Maximum seconds of waiting."""

Wait = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST,
        description="Seconds to wait until the run pauses or ends; then its current state is returned.",
    ),
]
AgentName = Annotated[str, StringConstraints(max_length=200)]


def _refuse_stream(value: Any) -> Any:
    if str(value).lower() not in ("false", "0", "none", ""):
        raise ValueError(
            "streaming is not available here; leave it out and read GET /runs/{run_id}/events, or use /agentos"
        )
    return False


Stream = Annotated[
    Literal[False],
    # Forms send texts; a description of both makes generators of clients drop the operation, or refuse false.
    BeforeValidator(_refuse_stream, json_schema_input_type=Literal[False]),
    Field(examples=[False]),
]


class RunStart(BaseModel):
    """A message for the agent. The same `session_id` continues the run that it started."""

    model_config = ConfigDict(extra="forbid")

    message: Annotated[Task, Field(examples=["Delete 50 old records from the users table"])]
    user_id: Annotated[Key | None, Field(examples=[None])] = None
    session_id: Annotated[SessionName | None, Field(examples=["test_session"])] = None
    stream: Stream = False


SentConfirmations = Annotated[
    Confirmations,
    BeforeValidator(from_text, json_schema_input_type=Confirmations | Json[Confirmations]),
    Field(examples=[[{"tool_call_id": "01980000-0000-7000-8000-000000000000", "confirmed": True}]]),
]


class RunContinue(BaseModel):
    """Confirmations for the calls that the run waits for. Calls left out, or with `confirmed: null`, keep waiting."""

    model_config = ConfigDict(extra="forbid")

    tools: SentConfirmations
    session_id: SessionName | None = None
    user_id: Key | None = None
    stream: Stream = False


@router.get("/agents", operation_id="list_agents", responses=documented(401, 403, 429, 503))
async def list_agents(request: Request, _: Reader) -> list[AgentOut]:
    """The agents that can be started."""
    return [AgentOut.of(each) for each in web_context(request).services.registry]


@router.post(
    "/agents/{agent_name}/runs",
    operation_id="create_agent_run",
    responses=documented(401, 403, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=openapi_body(RunStart),
)
async def create_agent_run(
    request: Request,
    agent_name: AgentName,
    body: Annotated[RunStart, Depends(form_or_json(RunStart))],
    caller: Asker,
    response: Response,
    wait: Wait = 30.0,
    key: IdempotencyKey = None,
) -> RunOutput:
    """Send a message to an agent, and wait until its run pauses for people, completes or fails.

    `user_id` comes back as it was sent. With a key of scope `on_behalf` a Slack user id names the requester; any other
    value names nobody in Slack.
    """
    ctx = web_context(request)
    agent = agent_named(ctx, agent_name)
    about = {"session_id": body.session_id, "user_id": body.user_id, "key": key}
    run_id = await say(ctx, caller, agent, body.message, **about)
    await until_settled(request, response, caller, run_id, wait)
    return await run_output(ctx, run_id)


@router.get(
    "/agents/{agent_name}/runs/{run_id}",
    operation_id="get_agent_run",
    responses=documented(401, 403, 404, 422, 429, 503),
)
async def get_agent_run(
    request: Request,
    agent_name: AgentName,
    run_id: UUID,
    caller: Reader,
    response: Response,
    wait: Wait = 0.0,
) -> RunOutput:
    """The current state of a run; with `wait`, returns as soon as it pauses or ends."""
    ctx = web_context(request)
    await check_agent(ctx, caller, agent_name, run_id)
    await until_settled(request, response, caller, run_id, wait)
    return await run_output(ctx, run_id)


@router.post(
    "/agents/{agent_name}/runs/{run_id}/continue",
    operation_id="continue_agent_run",
    responses=documented(401, 403, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=openapi_body(RunContinue),
)
async def continue_agent_run(
    request: Request,
    agent_name: AgentName,
    run_id: UUID,
    body: Annotated[RunContinue, Depends(form_or_json(RunContinue))],
    caller: Reader,
    response: Response,
    wait: Wait = 30.0,
) -> RunOutput:
    """Confirm or reject tool calls as the owner of this key. Needs the scope `decide`.

    Each decision counts on its own, in the given order. The first refused one ends the call, and the problem lists
    those that counted. A key with the scope `request` is refused, and the attempt is recorded with the request.
    """
    ctx = web_context(request)
    await check_agent(ctx, caller, agent_name, run_id)
    await confirm(ctx, caller, run_id, body.tools)
    await until_settled(request, response, caller, run_id, wait)
    return await run_output(ctx, run_id)
