"""Call a tool's hooks: its call waits for people, or was refused."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from agent.runtime import stored_text, user_code
from agent.runtime.services import Services
from agent.runtime.tool import Tool, ToolContext
from agent.store.views import OpenCallDetails
from signoff.errors import MalformedArguments
from signoff.values import Action

TIMEOUT = 10.0
"""Seconds that a hook may take."""

_WAITS = (0.5, 1.0, 2.0, 4.0)

log = structlog.get_logger(__name__)


async def run_hook(
    services: Services,
    hook: Callable[..., Any],
    tool: Tool,
    work: OpenCallDetails,
    action: Action,
    **more: str,
) -> None:
    """Run a hook, a few times if need be. One that fails for good is logged: a decision must not wait for it."""
    try:
        arguments = user_code.with_context(tool.signature.values(action.arguments) | more, _context(work))
    except MalformedArguments as error:
        log.warning("hook not run", action="hook.skipped", tool=tool.name, error=str(error))
        return
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
    except Exception as error:  # whatever a user's function may raise
        return stored_text.log_text(error, action.arguments)
    return None
