"""MCP server through which coding agents and other MCP clients ask people; `signoff mcp` runs it.

- ``permission_prompt`` answers for every tool call that a coding agent is about to make, in the format that Claude
  Code expects of its ``--permission-prompt-tool``: ``{"behavior": "allow", "updatedInput": {…}}`` or
  ``{"behavior": "deny", "message": "…"}``, as text. The checkpoints judge the agent's tool by its name and input.
- ``request_approval`` asks about anything and waits briefly; ``get_decision`` continues the wait.

An approval is handed over once: it is claimed and reported as handed over, because the client does not report what it
does next. Anything but an approval is a refusal: a rejection, silence, an outage, an error, and an approval that was
handed over before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import uuid4

from signoff.integrations.extras import missing_framework

try:
    import anyio
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.tools import Tool
except ImportError as error:
    raise missing_framework("the MCP SDK", "mcp") from error

from pydantic import BaseModel

from signoff import distribution
from signoff.canonical import canonical_bytes
from signoff.client import Approval, AsyncApprovalClient, Review, concluded
from signoff.client.facts import FactsByTool, facts_of
from signoff.client.handover import hand_over
from signoff.client.operations import VERSION, WaitLimit
from signoff.durations import Duration
from signoff.errors import (
    AlreadyClaimed,
    ApiError,
    ApprovalExpired,
    Cause,
    CollaborationError,
    Conflict,
    SignoffError,
)
from signoff.formats import approval_notes
from signoff.sessions import session_named
from signoff.values import Action

log = logging.getLogger("signoff.mcp")

TIMEOUT = 600.0
"""Seconds that ``permission_prompt`` waits for people where neither its user nor policy says."""

WAIT = 45.0
"""Longest wait of the other tools, in seconds: many clients give up on a tool after a minute."""

PATIENCE = 10.0
"""Seconds that Signoff may be unreachable while a question is submitted."""

NAMES = "mcp-"
"""Prefix of this server's request names; it hands over no other requests of its key."""

MAX_ASKED = 1000
"""Questions whose arguments are kept for fact look-ups; older ones fall back to masked arguments."""

INSTRUCTIONS = (
    "People decide about risky actions. Call request_approval before such an action; while its status is `waiting`, "
    "call get_decision. Act only if `approved` is true, once, and with exactly the `arguments` of the answer."
)

Status = Literal["approved", "not_required", "waiting", Cause, "denied", "used", "error"]


class ApprovalResult(BaseModel):
    """The answer to a client. Only ``approved`` set to true allows anything, and only with these ``arguments``."""

    approved: bool
    status: Status
    request_id: str
    message: str
    arguments: dict[str, Any] | None = None


class ApprovalTools:
    """A set of MCP tools that ask people, tell their decision, and hand over each approval once."""

    def __init__(
        self,
        client: AsyncApprovalClient,
        *,
        timeout: Duration | None = None,
        facts: FactsByTool = None,
        session: str | None = None,
    ) -> None:
        self._client = client
        self._session = session
        self._own_session = f"mcp:{uuid4().hex}"
        """Of a connection that the transport does not name: over pipes there is one for each server."""
        self._timeout = WaitLimit.of(timeout, TIMEOUT)
        self._facts = facts
        self._asked: dict[str, dict[str, Any]] = {}
        """Questions not yet handed over; a review has their arguments masked."""
        self._numbers: dict[str, int] = {}
        """The last question under an id that names no single call, to begin from there."""

    async def permission_prompt(
        self,
        tool_name: str,
        input: dict[str, Any],  # noqa: A002 - Claude Code's name for it
        ctx: Context[Any],
        tool_use_id: str | None = None,
    ) -> str:
        """Ask people whether this tool may be used with this input. For coding agents, not for models."""
        session = self._session_of(ctx)
        try:
            if not tool_use_id:
                given = await self._permitted(tool_name, input, _name(None), session)
            elif _names_one_call(tool_use_id, tool_name):
                name = _hashed(input, tool_use_id, tool_name)
                given = await self._permitted(tool_name, input, name, session)
            else:
                stem = _hashed(input, tool_use_id, tool_name, session)
                given = await self._permitted_again(tool_name, input, stem, session)
        except ApprovalExpired as expired:
            return _deny(str(expired))
        except TimeoutError:
            return _deny("nobody has decided in time, so the call is not approved")
        except Exception as error:  # any error is a denial
            return _deny(str(error) or type(error).__name__)
        return json.dumps({"behavior": "allow", "updatedInput": given})

    async def request_approval(
        self,
        action: str,
        ctx: Context[Any],
        arguments: dict[str, Any] | None = None,
        description: str | None = None,
        context: Any = None,
        key: str | None = None,
        wait: float = WAIT,
    ) -> ApprovalResult:
        """Ask people to approve an action with these arguments. Waits up to 45 seconds for their decision.

        Say in `description` (one sentence) what would happen, and in `context` what people should know to decide.
        Repeating a call with the same `key` does not ask people again, so a new action needs a new `key`, or none.
        While the status is `waiting`, call get_decision. Act only if `approved` is true, once, with exactly the
        `arguments` of the answer: a person may have changed them.
        """
        name = _name(key)
        try:
            name, asked = await self._submitted(
                name,
                action,
                arguments or {},
                description=description,
                context=context,
                session=self._session_of(ctx),
                facts=facts_of(self._facts, action),
                patience=min(PATIENCE, self._timeout.seconds),
            )
            if isinstance(asked, Approval):
                return await self._word(name, asked)
            self._asked[name] = dict(arguments or {})
            if len(self._asked) > MAX_ASKED:
                del self._asked[next(iter(self._asked))]
        except Exception as error:  # any error is a denial
            return _refused(name, error)
        return await self.get_decision(name, wait)

    async def get_decision(self, request_id: str, wait: float = WAIT) -> ApprovalResult:
        """Get the decision on an earlier request_approval. Waits up to 45 seconds for it.

        An approval is given out once: act when `approved` is true. On further calls the status is `used`.
        """
        if not request_id.startswith(NAMES):
            return _refused(request_id, SignoffError("this is not a request_id from request_approval"))
        try:
            review = await self._client.get(request_id, wait=min(max(wait, 0.0), WAIT))
            if review.request_id != request_id:
                return _refused(request_id, SignoffError("this is not a request_id from request_approval"))
            if review.status == "waiting":
                return _waiting(request_id, "Nobody has decided yet.")
            decided = await self._word(request_id, concluded(review, self._asked.get(request_id)))
            self._asked.pop(request_id, None)
        except ApiError as error:
            if error.kind == "facts-changed":
                return _waiting(
                    request_id, "The facts or the policy have changed, so people are asked again."
                )
            return _refused(request_id, error)
        except Exception as error:  # any error is a denial
            return _refused(request_id, error)
        return decided

    async def _permitted(
        self, tool: str, given: Mapping[str, Any], name: str, session: str
    ) -> dict[str, Any]:
        """Return the arguments to act on. Raises what `ask` and `claim` raise."""
        async with self._withdrawing(name):
            facts = facts_of(self._facts, tool)
            decision = await self._client.ask(
                tool, given, timeout=self._timeout, key=name, session=session, facts=facts
            )
            return await self._handed_over(decision, self._timeout)

    async def _permitted_again(
        self, tool: str, given: Mapping[str, Any], stem: str, session: str
    ) -> dict[str, Any]:
        """Ask under the first name whose question is still open: earlier ones belong to earlier calls."""
        number = self._numbers.pop(stem, 1)
        while True:
            name = f"{stem}-{number}"
            try:
                if not await self._is_over(name):
                    return await self._permitted(tool, given, name, session)
            except AlreadyClaimed:  # by the other one of two calls at once
                pass
            finally:
                self._numbers[stem] = number
                if len(self._numbers) > MAX_ASKED:
                    del self._numbers[next(iter(self._numbers))]
            number += 1

    async def _is_over(self, name: str) -> bool:
        try:
            review = await self._client.get(name, patience=min(PATIENCE, self._timeout.seconds))
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        if review.status != "approved":
            return review.status != "waiting"
        attempt = review.raw["execution"]
        return review.lapsed or not (attempt is None or attempt["settled_as"] == "retry")

    async def _submitted(
        self, name: str, action: str, arguments: dict[str, Any], **more: Any
    ) -> tuple[str, Review | Approval]:
        """Ask under this name, or under another one if it is taken by another action: models repeat keys."""
        try:
            return name, await self._client.submit(action, arguments, key=name, **more)
        except Conflict:
            taken = await self._client.get(name, patience=more["patience"])
            if taken.digest == Action(action, VERSION, arguments).digest.hex():
                return name, taken  # the same action, described in other words
        name = _hashed(arguments, name, action)
        return name, await self._client.submit(action, arguments, key=name, **more)

    def _session_of(self, ctx: Context[Any]) -> str:
        """The one that was configured, or the connection."""
        named = (ctx.headers or {}).get("mcp-session-id")
        return self._session or session_named(named) or self._own_session

    async def _word(self, name: str, decision: Approval) -> ApprovalResult:
        given = await self._handed_over(decision, None)
        words = "Nobody has to be asked." if decision.status == "not_required" else _approval(decision)
        return ApprovalResult(
            approved=True, status=decision.status, request_id=name, message=words, arguments=given
        )

    async def _handed_over(self, decision: Approval, limit: WaitLimit | None) -> dict[str, Any]:
        """Return the arguments to act on, once. Raises AlreadyClaimed, ApiError and Unreachable."""
        if decision.status == "not_required":
            return dict(decision.arguments)
        facts = facts_of(self._facts, decision.action)
        claim = await self._client.do(hand_over(decision, facts=facts, timeout=limit))
        return dict(claim.arguments)

    @asynccontextmanager
    async def _withdrawing(self, name: str) -> AsyncIterator[None]:
        try:
            yield
        except ApprovalExpired:
            raise
        except (TimeoutError, anyio.get_cancelled_exc_class()):
            with anyio.move_on_after(5, shield=True):
                try:
                    await self._client.withdraw(name, patience=4.0)
                except SignoffError as error:
                    log.warning("could not withdraw the request: %s", error)
            raise


def server(
    client: AsyncApprovalClient,
    *,
    timeout: Duration | None = None,
    facts: FactsByTool = None,
    session: str | None = None,
) -> MCPServer[Any]:
    """The MCP server, for any transport; ``timeout`` is how long ``permission_prompt`` waits for people, by
    default as long as policy says, or ten minutes.

    ``facts`` are functions of the arguments, by tool, or one function of tool and arguments. ``session`` names the
    conversation of all questions; without it each connection is one.
    """
    tools = ApprovalTools(client, timeout=timeout, facts=facts, session=session)
    made: MCPServer[Any] = MCPServer(
        "signoff",
        version=distribution.installed()[1],
        instructions=INSTRUCTIONS,
        # Later versions of a coding agent may send more along; a model's unknown field is a mistake.
        tools=[
            Tool.from_function(tools.permission_prompt, structured_output=False),
            _exact(tools.request_approval),
            _exact(tools.get_decision),
        ],
        log_level="WARNING",
        subscriptions=False,
    )
    # MCPServer answers for prompts and resources, too, and would say that there may be some.
    handlers = made._lowlevel_server._request_handlers  # noqa: SLF001 - there is no other way to have none
    for method in [each for each in handlers if each.startswith(("prompts/", "resources/"))]:
        del handlers[method]
    return made


def serve(
    url: str,
    key: str,
    *,
    timeout: Duration | None = None,
    facts: FactsByTool = None,
    session: str | None = None,
) -> None:
    """Serve one client over standard input and output until it disconnects. Raises ValueError for an invalid address or
    key.
    """
    client = AsyncApprovalClient(url, key)
    server(client, timeout=timeout, facts=facts, session=session).run("stdio")


# --- parts -----------------------------------------------------------------------------------------------------


def _exact(function: Callable[..., Any]) -> Tool:
    """A tool that refuses unknown fields, and says so in its schema."""
    tool = Tool.from_function(function)
    arguments = tool.fn_metadata.arg_model
    arguments.model_config |= {"extra": "forbid", "hide_input_in_errors": True}
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


def _name(given: str | None) -> str:
    """The caller's own name makes a repeated question the same question."""
    if given and not re.fullmatch(r"[A-Za-z0-9_.:@~-]{1,100}", given):
        return _hashed({}, given)
    return NAMES + (given or uuid4().hex)


def _hashed(arguments: Mapping[str, Any], *named: str) -> str:
    """Raises MalformedArguments."""
    told = json.dumps(named).encode() + canonical_bytes(dict(arguments))
    return NAMES + hashlib.sha256(told).hexdigest()[:40]


def _names_one_call(call_id: str, tool: str) -> bool:
    """Some models use the tool's name as the id of a call, or a number that starts again in each turn."""
    rest = re.sub(rf"{re.escape(tool)}|functions?|tools?|calls?|[\W_]", "", call_id, flags=re.IGNORECASE)
    return len(rest) > 4 or not (rest == "" or rest.isdigit())


def _waiting(name: str, why: str) -> ApprovalResult:
    words = f"{why} Call get_decision with this request_id."
    return ApprovalResult(approved=False, status="waiting", request_id=name, message=words)


def _deny(why: str) -> str:
    return json.dumps({"behavior": "deny", "message": f"Signoff: {why}"}, ensure_ascii=False)


def _approval(decision: Approval) -> str:
    changed = ", who changed the arguments" if decision.edited else ""
    notes = f"\n{approval_notes(decision.notes)}" if decision.notes else ""
    return f"Approved{decision.by}{changed}. Do it once, with exactly these arguments.{notes}"


def _refused(name: str, error: Exception) -> ApprovalResult:
    status: Status = "error"
    if isinstance(error, CollaborationError):
        status = error.cause
    elif isinstance(error, AlreadyClaimed):
        status = "used"
    elif isinstance(error, ApiError) and error.status == 403:
        status = "denied"
    words = f"Not approved, do not do it: {str(error) or type(error).__name__}"
    return ApprovalResult(approved=False, status=status, request_id=name, message=words)
