"""The hooks of a tool: `on_pending` prepares, `on_refused` takes back."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from agent.domain.call_answers import NOT_ALLOWED
from agent.domain.run import AnswerKind, CallExecutor
from agent.runtime import stored_text
from agent.runtime.judging.run_calls import read_action
from agent.runtime.services import Services
from agent.runtime.signature import context_parameter
from agent.runtime.tool import Tool, ToolContext
from agent.store.views import OpenCallDetails
from agent.usecases.calls import hook_state
from signoff.errors import MalformedArguments
from signoff.values import Action

TIMEOUT = 10.0

_WAITS = (0.5, 1.0, 2.0, 4.0)

log = structlog.get_logger(__name__)


async def announce(services: Services, work: OpenCallDetails, tool: Tool | None) -> bool:
    """Undo an earlier action's preparation, then prepare the pending one. True: an edit came in between."""
    db, call_id, asked = services.db, work.call.id, work.action_decided
    await undo_preparation(services, work, tool)
    if asked is None or not await hook_state.mark_prepared(db, call_id, asked):
        return asked is not None
    if tool is not None and tool.on_pending is not None:
        await run_hook(services, tool.on_pending, tool, work, Action.from_canonical(asked))
    if await hook_state.mark_announced(db, call_id, asked):
        return False
    if await hook_state.is_superseded(db, call_id, asked):  # undone by another worker
        await _release_edited(services, tool, work, asked)
    return True


async def undo_preparation(services: Services, work: OpenCallDetails, tool: Tool | None) -> None:
    """Run `on_refused` for an action that was prepared but edited since, and forget its preparation."""
    if work.held is not None and work.held != work.action_decided:
        await _release_edited(services, tool, work, work.held)
        await hook_state.clear_prepared(services.db, work.call.id, work.held)


async def _release_edited(services: Services, tool: Tool | None, work: OpenCallDetails, held: bytes) -> None:
    if tool is not None and tool.on_refused is not None:
        await run_hook(services, tool.on_refused, tool, work, Action.from_canonical(held), cause="edited")


async def refused(services: Services, work: OpenCallDetails, tool: Tool | None) -> None:
    """Run the tool's `on_refused` if people or policy refused the call; first undo older preparation."""
    await undo_preparation(services, work, tool)
    kind = work.call.answer.kind if work.call.answer else None
    if kind in (AnswerKind.ERROR, AnswerKind.NOTHING_DONE) and work.executor is CallExecutor.PROGRAM:
        kind = AnswerKind.DENIED  # no program could begin it any more
    if tool is not None and tool.on_refused is not None and kind in NOT_ALLOWED:
        action = _refused_action(work, tool)
        if action is not None:
            await run_hook(services, tool.on_refused, tool, work, action, cause=kind.value)


def _refused_action(work: OpenCallDetails, tool: Tool) -> Action | None:
    """The decided or, if nobody was asked, proposed action; None if unreadable."""
    if stored := work.action_decided or work.action_judged:
        return Action.from_canonical(stored)
    try:
        return read_action(tool, work.call.raw_arguments)
    except MalformedArguments as error:
        log.warning("hook not run", action="hook.skipped", tool=tool.name, error=str(error))
        return None


async def run_hook(
    services: Services,
    hook: Callable[..., Any],
    tool: Tool,
    work: OpenCallDetails,
    action: Action,
    **more: str,
) -> None:
    """A decision must not wait for a failing hook: retry a few times, then log."""
    try:
        arguments = tool.signature.values(action.arguments) | more
    except MalformedArguments as error:
        log.warning("hook not run", action="hook.skipped", tool=tool.name, error=str(error))
        return
    if (taken := context_parameter(hook)) is not None:
        arguments[taken] = _context(work)
    for wait in (*_WAITS, None):
        failure = await _failure(services, hook, tool, arguments, action)
        if failure is None:
            return
        if wait is None:
            log.error("hook failed", action="hook.failed", tool=tool.name, error=failure)
            return
        log.warning("hook will be retried", action="hook.retried", tool=tool.name, error=failure)
        await asyncio.sleep(wait)


def _context(work: OpenCallDetails) -> ToolContext:
    return ToolContext(
        run_id=work.run.id,
        call_id=work.call.id,
        idempotency_key=str(work.call.id),
        requester=work.run.requester,
        agent=work.run.agent,
    )


async def _failure(
    services: Services, hook: Callable[..., Any], tool: Tool, arguments: dict[str, Any], action: Action
) -> str | None:
    try:
        await services.user_code.call(hook, arguments, name=f"hook of {tool.name}", within=TIMEOUT)
    except Exception as error:
        return stored_text.log_text(error, action.arguments)
    return None
