"""`/agents/{agent_name}/runs`: start a run, see it pause, confirm its tools, continue."""

from __future__ import annotations

from inspect import getdoc
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BeforeValidator, Field

from agent.runtime.agents import Agent
from slackbot.web.api.agents import IdempotencyKey
from slackbot.web.api.agno_runs import AgentName, Decisions, Message, Wait, check_run, confirm, say, settled
from slackbot.web.api.agno_shapes import AgnoTool, KnownRun, Status
from slackbot.web.api.shapes import Moment, ResponseModel
from slackbot.web.http.api_keys import Asker, Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import web_context
from slackbot.web.http.form_or_json import form_or_json, openapi_body
from slackbot.web.http.problems import documented

router = APIRouter(route_class=StrictRoute, tags=["Runs in Agno's format"])


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


class RunStart(Message):
    """A message for the agent. The same `session_id` continues the run that it started."""

    stream: Stream = False


class RunContinue(Decisions):
    """Confirmations for the calls that the run waits for. Calls left out, or with `confirmed: null`, keep waiting."""

    stream: Stream = False


class AgentOut(ResponseModel):
    """An agent that can be started."""

    id: str
    name: str
    description: str
    version: str
    tools: list[str]

    @classmethod
    def of(cls, agent: Agent) -> AgentOut:
        tools = [tool.name for tool in agent.tools]
        return cls(
            id=agent.name, name=agent.name, description=agent.description, version=agent.version, tools=tools
        )


class RunOutput(ResponseModel):
    """A run. `paused`: its `tools` with `requires_confirmation` and without `confirmed` wait for people.

    A tool may belong to an agent that this one delegated to. `denied`: a rejection or an expired request ended the run;
    `content` then has the reason.
    """

    run_id: UUID
    agent_id: str
    agent_name: str
    session_id: str | None
    user_id: str | None
    status: Status
    content: str | None
    tools: list[AgnoTool]
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, known: KnownRun) -> RunOutput:
        run = known.run
        more = {"session_id": run.session_id, "created_at": run.created_at, "updated_at": run.updated_at}
        return cls(**known.common, **more, status=known.status, tools=known.tools)


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

    `user_id` comes back as it was sent; a session takes no other. With a key of scope `on_behalf` a Slack user id names
    the requester; any other value names nobody in Slack.
    """
    run_id = await say(web_context(request), caller, agent_name, body, key)
    return RunOutput.of(await settled(request, response, caller, run_id, wait))


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
    await check_run(web_context(request), caller, agent_name, run_id)
    return RunOutput.of(await settled(request, response, caller, run_id, wait))


@router.post(
    "/agents/{agent_name}/runs/{run_id}/continue",
    operation_id="continue_agent_run",
    description=getdoc(confirm),
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
    """Confirm or reject tool calls as the owner of this key."""
    ctx = web_context(request)
    await check_run(ctx, caller, agent_name, run_id)
    await confirm(ctx, caller, run_id, body.tools)
    return RunOutput.of(await settled(request, response, caller, run_id, wait))
