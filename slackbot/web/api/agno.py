"""Runs in the shapes that clients of Agno's AgentOS know: start one, see it pause, confirm its tools, go on.

What is different: a tool is confirmed by a person who may review it, through a key of theirs, and never by whoever
asked; what is confirmed is what was asked, so arguments that come back changed are refused.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    StrictBool,
    StrictInt,
    StringConstraints,
)

from agent.domain.api_keys import Principal
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Verdict
from agent.domain.run import RunStatus
from agent.runtime.agents import Agent
from agent.store import views
from agent.usecases import runs
from slackbot.reviewing.members import check_member
from slackbot.reviewing.run_starts import Requester
from slackbot.web.api.agents import IdempotencyKey, Key, Reason, Task
from slackbot.web.api.agno_shapes import AgentOut, AgnoTool, RunOutput, run_output, run_tools
from slackbot.web.api.key_votes import cast_key_vote, key_owner
from slackbot.web.api.requesters import claimed_requester, looks_like_somebody
from slackbot.web.api.run_starts import agent_named, start
from slackbot.web.api.run_visibility import NO_SUCH_RUN, run_for
from slackbot.web.http.api_keys import Asker, Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.form_or_json import form_or_json, from_text, openapi_body
from slackbot.web.http.problems import ProblemRaised, documented

CHANGED_ARGUMENTS = (
    "The `tool_args` of {call} are not those that people are asked about (revision {revision}), and a word cannot "
    "change them, so nothing was counted. Send them as they are, or leave them out; a reviewer can edit the request."
)

router = APIRouter(route_class=StrictRoute, tags=["Runs in Agno's shapes"])

LONGEST = 60.0
"""Seconds that an answer may be waited for."""

Wait = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST,
        description="Seconds to wait until the run pauses or ends; then it is told as it is.",
    ),
]
AgentName = Annotated[str, StringConstraints(max_length=200)]


def _no_stream(value: Any) -> Any:
    if str(value).lower() not in ("false", "0", "none", ""):
        raise ValueError("streaming is not offered here; leave it out, and follow GET /runs/{run_id}/events")
    return False


Stream = Annotated[
    Literal[False],
    BeforeValidator(_no_stream, json_schema_input_type=Literal[False, "false"]),
    Field(examples=[False]),
]


class RunStart(BaseModel):
    """A message for the agent. The same `session_id` goes on with the run that it began."""

    model_config = ConfigDict(extra="forbid")

    message: Annotated[Task, Field(examples=["Delete 50 old records from the users table"])]
    user_id: Annotated[Key | None, Field(examples=[None])] = None
    session_id: Annotated[Key | None, Field(examples=["test_session"])] = None
    stream: Stream = False


class Confirmation(BaseModel):
    """A word on one tool call. Other members of a tool may come along; arguments must be those that were asked.

    To confirm a call that was edited its `revision` or its arguments have to come along.
    """

    model_config = ConfigDict(extra="ignore")

    tool_call_id: UUID
    confirmed: StrictBool | None = None
    confirmation_note: Reason | None = None
    tool_args: dict[str, Any] | None = None
    revision: StrictInt | None = None


Confirmations = Annotated[list[Confirmation], Field(max_length=200)]


class RunContinue(BaseModel):
    """Words on what the run waits for. What is left out, or `confirmed: null`, goes on waiting."""

    model_config = ConfigDict(extra="forbid")

    tools: Annotated[
        Confirmations,
        BeforeValidator(from_text, json_schema_input_type=Confirmations | Json[list[Confirmation]]),
        Field(examples=[[{"tool_call_id": "01980000-0000-7000-8000-000000000000", "confirmed": True}]]),
    ]
    session_id: Key | None = None
    user_id: Key | None = None
    stream: Stream = False


@router.get("/agents", operation_id="list_agents", responses=documented(401, 403, 429, 503))
async def list_agents(request: Request, _: Reader) -> list[AgentOut]:
    """The agents that can be started here."""
    return [AgentOut.of(each) for each in web_context(request).services.registry]


@router.post(
    "/agents/{agent_id}/runs",
    operation_id="create_agent_run",
    responses=documented(401, 403, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=openapi_body(RunStart),
)
async def create_agent_run(
    request: Request,
    agent_id: AgentName,
    body: Annotated[RunStart, Depends(form_or_json(RunStart))],
    caller: Asker,
    wait: Wait = 30.0,
    key: IdempotencyKey = None,
) -> RunOutput:
    """Give an agent a message, and wait until its run pauses for people, completes or fails.

    `user_id` is a person's id in Slack, for keys that may name somebody (`on_behalf`); any other name is left aside.
    """
    ctx = web_context(request)
    agent = agent_named(ctx, agent_id)
    named = body.user_id if body.user_id and looks_like_somebody(body.user_id) else None
    requester = claimed_requester(ctx, caller, named)
    await check_member(ctx.slack.directory, requester.person)
    run_id = await _conversation(ctx, caller, agent.name, body, requester, key)
    if run_id is None:
        run_id = await _begin(ctx, caller, agent, body, requester, key)
    return await _settled(ctx, run_id, wait)


async def _conversation(
    ctx: WebContext, caller: Principal, agent: str, body: RunStart, requester: Requester, key: str | None
) -> UUID | None:
    """The run of this session, which has heard the message now; ``None``: one has to begin."""
    found = await _latest(ctx, caller, agent, body.session_id)
    if found is None:
        return None
    async with ctx.db.connection() as connection:
        run = await views.run_view(connection, found)
        began = await views.run_started_with(connection, f"{caller.name}:{key}") if key else None
    if began is not None or run is None or run.status is RunStatus.CANCELLED:
        return None
    if run.requester != requester.person:
        words = "This session was begun on behalf of somebody else; begin another one."
        raise ProblemRaised(409, "conflict", "Conflict", words)
    source = f"{caller.name}:{key}" if key else None
    heard = await runs.add_message(
        ctx.db, found, body.message, requester.person, source, principal=caller.name
    )
    return found if heard or source else None


async def _begin(
    ctx: WebContext, caller: Principal, agent: Agent, body: RunStart, requester: Requester, key: str | None
) -> UUID:
    """A run of its own. Of two that begin one session at once, one finds the other's."""
    if key is None and body.session_id is not None:
        key = f"session:{agent.name}:{body.session_id}:{await _latest(ctx, caller, agent.name, body.session_id)}"
    started = await start(
        ctx, caller, agent, body.message, requester, start_key=key, session_id=body.session_id
    )
    return started.run_id


async def _latest(ctx: WebContext, caller: Principal, agent: str, session_id: str | None) -> UUID | None:
    if session_id is None:
        return None
    async with ctx.db.connection() as connection:
        return await views.run_of_session(connection, caller.name, session_id, agent)


@router.get(
    "/agents/{agent_id}/runs/{run_id}",
    operation_id="get_agent_run",
    responses=documented(401, 403, 404, 422, 429, 503),
)
async def get_agent_run(
    request: Request, agent_id: AgentName, run_id: UUID, caller: Reader, wait: Wait = 0.0
) -> RunOutput:
    """A run as it stands; with `wait` as soon as it pauses or ends."""
    ctx = web_context(request)
    await _of_agent(ctx, caller, agent_id, run_id)
    return await _settled(ctx, run_id, wait)


@router.post(
    "/agents/{agent_id}/runs/{run_id}/continue",
    operation_id="continue_agent_run",
    responses=documented(401, 403, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=openapi_body(RunContinue),
)
async def continue_agent_run(
    request: Request,
    agent_id: AgentName,
    run_id: UUID,
    body: Annotated[RunContinue, Depends(form_or_json(RunContinue))],
    caller: Reader,
    wait: Wait = 30.0,
) -> RunOutput:
    """Confirm or refuse tools that the run waits for, as the person who owns this key; the scope `decide` is needed.

    Each word counts by itself, in the order given. The first one that does not count ends the call, and the problem
    names those that did. A key with the scope `request` is refused, and that is recorded with the request.
    """
    ctx = web_context(request)
    await _of_agent(ctx, caller, agent_id, run_id)
    said = [each for each in body.tools if each.confirmed is not None]
    waiting = _matched(said, await run_tools(ctx, run_id))
    asked = [(tool.request_id, tool.revision) for tool in waiting if tool.request_id and tool.revision]
    if said:
        person = await key_owner(ctx, caller, asked)
        counted: list[str] = []
        for word, (request_id, revision) in zip(said, asked, strict=True):
            verdict = Verdict.APPROVE if word.confirmed else Verdict.REJECT
            # Who sends the arguments along, which were compared, has looked at them.
            named = word.revision if word.tool_args is None else revision
            try:
                await cast_key_vote(
                    ctx,
                    caller,
                    person,
                    request_id,
                    verdict,
                    word.confirmation_note,
                    named=named,
                    present=revision,
                )
            except Refused as refused:
                if not counted:
                    raise
                words = f"{refused.sentence} The words on {', '.join(counted)} count."
                raise ProblemRaised(
                    409, refused.code.value.replace("_", "-"), "Not all count", words, counted=counted
                ) from refused
            counted.append(str(word.tool_call_id))
    return await _settled(ctx, run_id, wait)


def _matched(said: Sequence[Confirmation], tools: Sequence[AgnoTool]) -> list[AgnoTool]:
    """The tools that these words are on, in their order. Raises ProblemRaised before any of them counts."""
    by_id = {tool.tool_call_id: tool for tool in tools}
    matched = []
    for word in said:
        tool = by_id.get(word.tool_call_id)
        if tool is None or tool.request_id is None:
            words = f"This run has no tool call {word.tool_call_id} that needs a word."
            raise ProblemRaised(404, "no-such-tool-call", "No such tool call", words)
        if word.tool_args is not None and word.tool_args != tool.tool_args:
            words = CHANGED_ARGUMENTS.format(call=word.tool_call_id, revision=tool.revision)
            raise ProblemRaised(409, "changed-arguments", "Other arguments", words)
        if word.revision not in (None, tool.revision):
            raise Refused(Refusal.STALE_REVISION)
        matched.append(tool)
    if len({tool.tool_call_id for tool in matched}) < len(matched):
        raise ProblemRaised(422, "invalid", "Invalid", "Each tool call may be named once.")
    return matched


async def _of_agent(ctx: WebContext, caller: Principal, agent: str, run_id: UUID) -> None:
    line = await run_for(ctx, caller, run_id)
    if line.run.agent != agent:
        raise NotFound(NO_SUCH_RUN)


async def _settled(ctx: WebContext, run_id: UUID, seconds: float) -> RunOutput:
    """The run when nothing more happens in it without people, or as it is after so many seconds."""
    deadline, seen = time.monotonic() + seconds, None
    while (left := deadline - time.monotonic()) > 0 and not ctx.watch.closing:
        seen = await ctx.watch.run(run_id, seen, left)
        async with ctx.db.connection() as connection:
            if not await views.is_busy(connection, run_id):
                break
    return await run_output(ctx, run_id)
