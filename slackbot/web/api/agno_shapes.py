"""Agents, tool calls and runs in Agno's format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from agent.domain.errors import NotFound
from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from agent.domain.run import AnswerKind, CallState, CallView, RunStatus, RunValues, RunView
from agent.store import views
from slackbot.cards import json_text
from slackbot.masking import Hidden, clean_run, clean_text, clean_value, clean_view, hidden_in_run
from slackbot.web.api.run_starts import NO_SUCH_RUN
from slackbot.web.api.shapes import ResponseModel
from slackbot.web.http.context import WebContext

Status = Literal["running", "paused", "completed", "denied", "failed", "cancelled"]
AgentOSStatus = Literal["PENDING", "RUNNING", "PAUSED", "COMPLETED", "CANCELLED", "ERROR"]
_STATUS: dict[RunStatus, tuple[Status, AgentOSStatus]] = {
    RunStatus.WORKING: ("running", "RUNNING"),
    RunStatus.PENDING_APPROVAL: ("paused", "PAUSED"),
    RunStatus.COMPLETED: ("completed", "COMPLETED"),
    RunStatus.DENIED: ("denied", "CANCELLED"),  # AgentOS has no other status for an end that people caused
    RunStatus.FAILED: ("failed", "ERROR"),
    RunStatus.CANCELLED: ("cancelled", "CANCELLED"),
}
_FAILED = (
    AnswerKind.ERROR,
    AnswerKind.NOTHING_DONE,
    AnswerKind.STOPPED,
    AnswerKind.MALFORMED,
    AnswerKind.UNKNOWN_TOOL,
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


@dataclass(frozen=True, slots=True)
class KnownRun:
    """`began`: when each call was proposed."""

    run: RunView
    tools: list[AgnoTool]
    began: dict[UUID, datetime]

    @property
    def common(self) -> dict[str, Any]:
        """The fields that both formats have."""
        run = self.run
        about = {"run_id": run.id, "agent_id": run.agent, "agent_name": run.agent, "content": self.content}
        return about | {"user_id": user_of(run)}

    @property
    def status(self) -> Status:
        return _STATUS[self.run.shown][0]

    @property
    def agentos_status(self) -> AgentOSStatus:
        return _STATUS[self.run.shown][1]

    @property
    def content(self) -> str | None:
        ended = self.run.status in (RunStatus.DENIED, RunStatus.FAILED)
        return self.run.cause if ended else self.run.answer


def user_of(run: RunView) -> str | None:
    """As the program sent it, else the requester in Slack."""
    return run.program_user or (run.requester.user_id if run.requester else None)


def session_of(run: RunView) -> str:
    """A run without a session is one of its own."""
    return run.session_id or str(run.id)


async def known_run(ctx: WebContext, run_id: UUID) -> KnownRun:
    """Raises NotFound."""
    run, calls, asked_views, values = await _rows(ctx, run_id)
    hidden = hidden_in_run(values)
    return KnownRun(
        await clean_run(run, hidden),
        [await _tool(call, asked_views.get(call.request_id), hidden, values.redact) for call in calls],
        {call.id: call.created_at for call in calls if call.created_at},
    )


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
    text = await clean_text(call.answer.told, hidden) if call.answer else None
    ran = call.answer is not None and call.answer.kind in (
        AnswerKind.RESULT,
        AnswerKind.NOT_STORED,
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
            "approvals": view.approvals,
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
    return view.status in (RequestStatus.APPROVED, RequestStatus.ANSWERED)


def _arguments(call: CallView) -> dict[str, Any] | None:
    """``None`` if the proposed arguments are not a JSON object."""
    try:
        proposed = json.loads(call.raw_arguments)
    except (ValueError, RecursionError):
        return None
    return proposed if isinstance(proposed, dict) else None
