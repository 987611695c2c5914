from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from agent.domain.api_keys import Principal
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Verdict
from agent.domain.run import RunStatus
from agent.runtime.agents import Agent
from agent.store import views
from agent.usecases import runs
from slackbot.reviewing.members import check_member
from slackbot.reviewing.run_starts import Requester
from slackbot.web.api.agents import Reason
from slackbot.web.api.agno_shapes import AgnoTool, run_tools
from slackbot.web.api.key_votes import cast_key_vote, key_owner
from slackbot.web.api.requesters import claimed_requester, is_user_id
from slackbot.web.api.run_starts import start, stored_start_key
from slackbot.web.api.run_visibility import NO_SUCH_RUN, run_for
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.problems import ProblemRaised

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


async def say(
    ctx: WebContext,
    caller: Principal,
    agent: Agent,
    message: str,
    *,
    session_id: str | None,
    user_id: str | None,
    key: str | None,
) -> UUID:
    """Send a message to the session's run, or start one. `user_id` as in `create_agent_run`."""
    named = user_id if user_id and is_user_id(user_id) else None
    requester = claimed_requester(ctx, caller, named)
    await check_member(ctx.slack.directory, requester.person)
    run_id = await _conversation(ctx, caller, agent.name, message, session_id, requester, key)
    about = {"session_id": session_id, "program_user": user_id}
    return run_id or await _begin(ctx, caller, agent, message, requester, key, **about)


async def latest_run(ctx: WebContext, caller: Principal, agent: str, session_id: str | None) -> UUID | None:
    if session_id is None:
        return None
    return await ctx.db.read(views.run_of_session, caller.name, session_id, agent)


async def confirm(ctx: WebContext, caller: Principal, run_id: UUID, tools: Sequence[Confirmation]) -> None:
    """Apply these decisions as `continue_agent_run` documents."""
    said = [each for each in tools if each.confirmed is not None]
    waiting = _matched(said, await run_tools(ctx, run_id))
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


async def check_agent(ctx: WebContext, caller: Principal, agent: str, run_id: UUID) -> None:
    """Raises NotFound for another agent's run, or one that this key may not see."""
    line = await run_for(ctx, caller, run_id)
    if line.run.agent != agent:
        raise NotFound(NO_SUCH_RUN)


async def until_settled(
    request: Request, response: Response, caller: Principal, run_id: UUID, seconds: float
) -> None:
    """Wait up to ``seconds``, if the key has a place; otherwise the response says when to come again."""
    if seconds <= 0:
        return
    ctx = web_context(request)
    with ctx.places.place(request, caller.name) as place:
        deadline, seen = time.monotonic() + (seconds if place.granted else 0.0), None
        while (left := deadline - time.monotonic()) > 0 and not ctx.watch.closing:
            seen = await ctx.watch.run(run_id, seen, left)
            if not await ctx.db.read(views.is_busy, run_id):
                return
    place.cut_short(response, stopping=ctx.watch.closing)


async def _conversation(
    ctx: WebContext,
    caller: Principal,
    agent: str,
    message: str,
    session_id: str | None,
    requester: Requester,
    key: str | None,
) -> UUID | None:
    """Returns ``None`` if a run has to start."""
    found = await latest_run(ctx, caller, agent, session_id)
    if found is None:
        return None
    async with ctx.db.connection() as connection:
        run = await views.run_view(connection, found)
        began = await views.run_started_with(connection, stored_start_key(caller, key)) if key else None
    if began is not None or run is None or run.status is RunStatus.CANCELLED:
        return None
    if run.requester != requester.person:
        words = "This session was started for another requester; start a new one."
        raise ProblemRaised(409, "conflict", "Conflict", words)
    source = f"{caller.name}:{key}" if key else None
    heard = await runs.add_message(ctx.db, found, message, requester.person, source, principal=caller.name)
    return found if heard or source else None


async def _begin(
    ctx: WebContext,
    caller: Principal,
    agent: Agent,
    message: str,
    requester: Requester,
    key: str | None,
    *,
    session_id: str | None,
    program_user: str | None,
) -> UUID:
    """If two calls start one session at once, one finds the other's run."""
    if key is None and session_id is not None:
        key = f"session:{agent.name}:{session_id}:{await latest_run(ctx, caller, agent.name, session_id)}"
    about = {"session_id": session_id, "program_user": program_user}
    started = await start(ctx, caller, agent, message, requester, start_key=key, **about)
    return started.run_id


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
