from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from agent.domain.errors import NotFound
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.domain.run import AnswerKind, CallState, CallView, RunStatus, RunValues, RunView
from agent.runtime.agents import Agent
from agent.store import views
from slackbot.cards import json_text
from slackbot.masking import Hidden, clean_run, clean_text, clean_value, clean_view, hidden_in_run
from slackbot.web.api.run_visibility import NO_SUCH_RUN
from slackbot.web.api.shapes import Moment, ResponseModel
from slackbot.web.http.context import WebContext

Status = Literal["running", "paused", "completed", "denied", "failed", "cancelled"]
_STATUS: dict[RunStatus, Status] = {
    RunStatus.WORKING: "running",
    RunStatus.PENDING_APPROVAL: "paused",
    RunStatus.COMPLETED: "completed",
    RunStatus.DENIED: "denied",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
_FAILED = (AnswerKind.ERROR, AnswerKind.STOPPED, AnswerKind.MALFORMED, AnswerKind.UNKNOWN_TOOL)


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


class AgnoTool(ResponseModel):
    """A tool call. With `requires_confirmation` and no `confirmed`, people are asked, in the request `request_id`."""

    tool_call_id: UUID
    tool_name: str
    tool_args: dict[str, Any] | None
    requires_confirmation: bool
    confirmed: bool | None
    confirmation_note: str | None
    result: str | None
    tool_call_error: bool | None
    state: CallState
    request_id: UUID | None
    request_status: RequestStatus | None
    revision: int | None
    approvals: int | None
    approvals_required: int | None


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


@dataclass(frozen=True, slots=True)
class KnownRun:
    """`began`: when each call was proposed."""

    run: RunView
    tools: list[AgnoTool]
    began: dict[UUID, datetime]

    @property
    def content(self) -> str | None:
        ended = self.run.status in (RunStatus.DENIED, RunStatus.FAILED)
        return self.run.cause if ended else self.run.answer

    @property
    def user_id(self) -> str | None:
        return user_of(self.run)


def user_of(run: RunView) -> str | None:
    """As the program sent it, else the requester in Slack."""
    return run.program_user or (run.requester.user_id if run.requester else None)


async def known_run(ctx: WebContext, run_id: UUID) -> KnownRun:
    """Raises NotFound."""
    run, calls, asked_views, values = await _rows(ctx, run_id)
    hidden = hidden_in_run(values)
    return KnownRun(
        await clean_run(run, hidden),
        [await _tool(call, asked_views.get(call.request_id), hidden, values.redact) for call in calls],
        {call.id: call.created_at for call in calls if call.created_at},
    )


async def run_output(ctx: WebContext, run_id: UUID) -> RunOutput:
    """Raises NotFound."""
    known = await known_run(ctx, run_id)
    run = known.run
    return RunOutput(
        run_id=run.id,
        agent_id=run.agent,
        agent_name=run.agent,
        session_id=run.session_id,
        user_id=known.user_id,
        status=_STATUS[run.shown],
        content=known.content,
        tools=known.tools,
        created_at=run.created_at,
        updated_at=run.updated_at,
    )


async def run_tools(ctx: WebContext, run_id: UUID) -> list[AgnoTool]:
    return (await known_run(ctx, run_id)).tools


async def _rows(
    ctx: WebContext, run_id: UUID
) -> tuple[RunView, tuple[CallView, ...], dict[UUID | None, RequestView], RunValues]:
    async with ctx.db.connection() as connection:
        found = await views.run_and_values(connection, run_id)
        calls = (
            *await views.calls(connection, run_id),
            *await views.waiting_descendant_calls(connection, run_id),
        )
        asked = [call.request_id for call in calls if call.request_id]
        asked_views = await views.request_views(connection, asked) if asked else []
    if found is None:
        raise NotFound(NO_SUCH_RUN)
    run, values = found
    return run, calls, {view.id: view for view in asked_views}, values


async def _tool(call: CallView, view: RequestView | None, hidden: Hidden, redact: Sequence[str]) -> AgnoTool:
    """``redact``: of the run, because nobody was asked about a call without a view."""
    text = await clean_text(call.answer.text, hidden) if call.answer else None
    ran = call.answer is not None and call.answer.kind in (
        AnswerKind.RESULT,
        AnswerKind.DONE_BY_PERSON,
        *_FAILED,
    )
    if view is None:
        arguments = await clean_value(_arguments(call), hidden, redact)
        shown: dict[str, Any] = dict.fromkeys(
            ("confirmed", "confirmation_note", "request_id", "request_status", "revision", "approvals")
        ) | {"approvals_required": None}
    else:
        clean = await clean_view(view)
        arguments = json_text.arguments_of(clean.action)
        shown = {
            "confirmed": _confirmed(view),
            "confirmation_note": clean.decision.reason if clean.decision else None,
            "request_id": view.id,
            "request_status": view.status,
            "revision": view.revision,
            "approvals": sum(vote.verdict is Verdict.APPROVE for vote in view.votes),
            "approvals_required": view.approvals_required,
        }
    return AgnoTool(
        tool_call_id=call.id,
        tool_name=call.tool,
        tool_args=arguments,
        requires_confirmation=view is not None,
        result=text if ran else None,
        tool_call_error=call.answer.kind in _FAILED if call.answer and ran else None,
        state=call.state,
        **shown,
    )


def _confirmed(view: RequestView) -> bool | None:
    if view.status is RequestStatus.WAITING:
        return None
    return view.status is RequestStatus.APPROVED


def _arguments(call: CallView) -> dict[str, Any] | None:
    """``None`` if the proposed arguments are not a JSON object."""
    try:
        proposed = json.loads(call.raw_arguments)
    except (ValueError, RecursionError):
        return None
    return proposed if isinstance(proposed, dict) else None
