"""Runs as Agno's programs speak of them: what `/agents/…/runs` and `/agentos` do alike.

A reviewer's own key confirms tools, never the key that asked, and only with the original arguments.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request, Response
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
)

from agent.domain.api_keys import Principal
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Verdict
from agent.domain.run import RunLine, RunStatus
from agent.store import views
from agent.usecases import runs
from slackbot.reviewing.members import check_member
from slackbot.reviewing.run_starts import Requester
from slackbot.web.api.agents import Reason, SessionName, Task
from slackbot.web.api.agno_shapes import AgnoTool, KnownRun, known_run, session_of, user_of
from slackbot.web.api.key_votes import cast_key_vote, key_owner
from slackbot.web.api.requesters import claimed_requester, is_user_id
from slackbot.web.api.run_starts import NO_SUCH_RUN, agent_named, run_for, start, stored_start_key
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.form_or_json import from_text
from slackbot.web.http.problems import ProblemRaised

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

CHANGED_ARGUMENTS = (
    "The `tool_args` of {call} are not those that people are asked about (revision {revision}), and confirming "
    "cannot change them, so nothing was counted. Send them as is, or leave them out; a reviewer can edit the request."
)


class Confirmation(BaseModel):
    """A decision on one tool call. Other fields of the tool may be included; `tool_args` must be the original ones.

    To confirm an edited call, its `revision` or its arguments must be included.
    """

    model_config = ConfigDict(extra="ignore")

    tool_call_id: UUID
    confirmed: StrictBool | None = None
    confirmation_note: Reason | None = None
    tool_args: dict[str, Any] | None = None
    revision: StrictInt | None = None


Confirmations = Annotated[list[Confirmation], Field(max_length=200)]


class Message(BaseModel):
    """A message for the agent."""

    model_config = ConfigDict(extra="forbid")

    message: Annotated[Task, Field(examples=["Delete 50 old records from the users table"])]
    user_id: Annotated[SessionName | None, Field(examples=[None])] = None
    session_id: Annotated[SessionName | None, Field(examples=["test_session"])] = None


class Decisions(BaseModel):
    """Decisions on the calls that the run waits for. Calls that are missing, or without `confirmed`, keep waiting."""

    model_config = ConfigDict(extra="forbid")

    tools: Annotated[
        Confirmations,
        BeforeValidator(from_text, json_schema_input_type=Confirmations),
        Field(examples=[[{"tool_call_id": "01980000-0000-7000-8000-000000000000", "confirmed": True}]]),
    ]
    session_id: SessionName | None = None
    user_id: SessionName | None = None


async def say(ctx: WebContext, caller: Principal, agent_name: str, said: Message, key: str | None) -> UUID:
    """Send a message to the session's run, or start one. `user_id` as in `create_agent_run`."""
    agent = agent_named(ctx, agent_name)
    named = said.user_id if said.user_id and is_user_id(said.user_id) else None
    requester = claimed_requester(ctx, caller, named)
    await check_member(ctx.slack.directory, requester.person)
    latest = await latest_run(ctx, caller, agent.name, said.session_id)
    if latest is not None and await _hears(ctx, caller, latest, said, requester, key):
        return latest
    if key is None and said.session_id is not None:
        # Of two calls that start one session at once, the second finds the first one's run.
        key = f"session:{agent.name}:{said.session_id}:{latest}"
    about = {"session_id": said.session_id, "program_user": said.user_id}
    return (await start(ctx, caller, agent, said.message, requester, start_key=key, **about)).run_id


async def latest_run(ctx: WebContext, caller: Principal, agent: str, session_id: str | None) -> UUID | None:
    """Return the key's latest run with this agent in a session; None without a session or such a run."""
    if session_id is None:
        return None
    return await ctx.db.read(views.run_of_session, caller.name, session_id, agent)


async def confirm(ctx: WebContext, caller: Principal, run_id: UUID, tools: Sequence[Confirmation]) -> None:
    """Confirm or reject tool calls as the owner of this key. Needs the scope `decide`.

    Each decision counts on its own, in the given order. The first refused one ends the call, and the problem lists
    those that counted. A key with the scope `request` is refused, and the attempt is recorded with the request.
    """
    said = [each for each in tools if each.confirmed is not None]
    waiting = _matched(said, (await known_run(ctx, run_id)).tools)
    asked = [(tool.request_id, tool.revision) for tool in waiting if tool.request_id and tool.revision]
    if not said:
        return
    person = await key_owner(ctx, caller, asked)
    counted: list[str] = []
    for word, (request_id, revision) in zip(said, asked, strict=True):
        verdict = Verdict.APPROVE if word.confirmed else Verdict.REJECT
        # The caller sent this revision's arguments, so has seen it.
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
            phrase = "vote on {} counts" if len(counted) == 1 else "votes on {} count"
            words = f"{refused.sentence} The {phrase.format(', '.join(counted))}."
            kind = refused.code.value.replace("_", "-")
            raise ProblemRaised(409, kind, "Only some votes counted", words, counted=counted) from refused
        counted.append(str(word.tool_call_id))


async def check_run(
    ctx: WebContext, caller: Principal, agent: str, run_id: UUID, session_id: str | None = None
) -> RunLine:
    """Raises NotFound for a run that this key may not see, and for another agent's or session's."""
    line = await run_for(ctx, caller, run_id)
    if line.run.agent != agent or session_id not in (None, session_of(line.run)):
        raise NotFound(NO_SUCH_RUN)
    return line


async def settled(
    request: Request, response: Response, caller: Principal, run_id: UUID, seconds: float
) -> KnownRun:
    """The run, once it pauses or ends, or after ``seconds``. Without a place, the response says when to come again."""
    ctx = web_context(request)
    if seconds > 0:
        with ctx.places.place(request, caller.name) as place:
            deadline, seen, busy = time.monotonic() + (seconds if place.granted else 0.0), None, True
            while busy and (left := deadline - time.monotonic()) > 0 and not ctx.watch.closing:
                seen = await ctx.watch.run(run_id, seen, left)
                busy = await ctx.db.read(views.is_busy, run_id)
        if busy:
            place.cut_short(response, stopping=ctx.watch.closing)
    return await known_run(ctx, run_id)


async def _hears(
    ctx: WebContext, caller: Principal, run_id: UUID, said: Message, requester: Requester, key: str | None
) -> bool:
    """False if another run has to start. Raises ProblemRaised for another requester or user."""
    async with ctx.db.connection() as connection:
        run = await views.run_view(connection, run_id)
        began = await views.run_started_with(connection, stored_start_key(caller, key)) if key else None
    if began is not None or run is None or run.status is RunStatus.CANCELLED:
        return False
    if run.requester != requester.person or said.user_id not in (None, user_of(run)):
        words = "This session was started for another requester or `user_id`; start a new one."
        raise ProblemRaised(409, "conflict", "Conflict", words)
    source = f"{caller.name}:{key}" if key else None
    heard = await runs.add_message(
        ctx.db, run_id, said.message, requester.person, source, principal=caller.name
    )
    return bool(heard or source)


def _matched(said: Sequence[Confirmation], tools: Sequence[AgnoTool]) -> list[AgnoTool]:
    """The calls of these decisions. Raises ProblemRaised before any decision counts."""
    by_id = {tool.tool_call_id: tool for tool in tools}
    matched = []
    for word in said:
        tool = by_id.get(word.tool_call_id)
        if tool is None or tool.request_id is None:
            words = f"This run has no tool call {word.tool_call_id} that needs confirmation."
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
