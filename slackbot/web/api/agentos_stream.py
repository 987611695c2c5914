"""The events of one run, in AgentOS' format."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from agent.domain.run import CallState
from agent.store import views
from slackbot.web.api import events
from slackbot.web.api.agentos_shapes import AgentOSRun, ToolExecution
from slackbot.web.api.agno_shapes import KnownRun, known_run
from slackbot.web.api.run_events import may_still_see
from slackbot.web.http.context import WebContext

_BEGUN = (CallState.CLAIMED, CallState.DELEGATED, CallState.IN_DOUBT, CallState.ANSWERED)


async def ended_tools(ctx: WebContext, run_id: UUID) -> set[UUID]:
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
