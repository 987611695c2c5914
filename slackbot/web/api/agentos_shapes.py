"""Agents, runs and events in AgentOS's exact format, for its own client."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from agent.domain.request import RequestStatus
from agent.runtime.agents import Agent
from agent.runtime.tool import Tool
from slackbot.web.api.agno_shapes import AgentOSStatus, AgnoTool, KnownRun, session_of
from slackbot.web.api.shapes import Moment, ResponseModel


class ModelOut(ResponseModel):
    """The model of an agent."""

    model: str


class AgentDetails(ResponseModel):
    """An agent in AgentOS's format; `tools.tools` has each tool with its JSON schema."""

    id: str
    name: str
    description: str | None = None
    model: ModelOut | None = None
    tools: dict[str, Any]
    metadata: dict[str, Any]

    @classmethod
    def of(cls, agent: Agent) -> AgentDetails:
        return cls(
            id=agent.name,
            name=agent.name,
            description=agent.description or None,
            model=ModelOut(model=agent.model) if agent.model else None,
            tools={"tools": [_tool_details(each) for each in agent.tools]},
            metadata={"version": agent.version},
        )


class Health(ResponseModel):
    """`instantiated_at`: when this process started."""

    status: Literal["ok"]
    instantiated_at: Moment


class OSConfig(ResponseModel):
    """The configuration of this AgentOS: its agents."""

    os_id: str
    name: str
    description: str
    available_models: list[dict[str, Any]]
    databases: list[str]
    agents: list[AgentDetails]
    teams: list[dict[str, Any]]
    workflows: list[dict[str, Any]]
    interfaces: list[dict[str, Any]]


class ToolExecution(ResponseModel):
    """A tool call. `requires_confirmation` is true while people are asked about it."""

    tool_call_id: UUID
    tool_name: str
    tool_args: dict[str, Any] | None = None
    tool_call_error: bool | None = None
    result: str | None = None
    created_at: int
    requires_confirmation: bool
    confirmed: bool | None = None
    confirmation_note: str | None = None

    @classmethod
    def of(cls, tool: AgnoTool, began: datetime) -> ToolExecution:
        waits = tool.request_status is RequestStatus.WAITING
        return cls.copy_of(tool, created_at=int(began.timestamp()), requires_confirmation=waits)


class Requirement(ResponseModel):
    """A confirmation that a run waits or waited for. Its `id` is the request's."""

    id: UUID
    created_at: Moment
    tool_execution: ToolExecution
    confirmation: bool | None = None
    confirmation_note: str | None = None


class RunInput(ResponseModel):
    """The first input of a run."""

    input_content: str


class AgentOSRun(ResponseModel):
    """A run. `PAUSED`: `requirements` without `confirmation` wait for people.

    `CANCELLED` includes runs ended by a rejection or an expired request; `content` then has the reason.
    """

    run_id: UUID
    agent_id: str
    agent_name: str
    session_id: str
    user_id: str | None = None
    input: RunInput
    content: str | None = None
    content_type: Literal["str"] = "str"
    status: AgentOSStatus
    tools: list[ToolExecution]
    requirements: list[Requirement] | None = None
    created_at: int

    @classmethod
    def of(cls, known: KnownRun) -> AgentOSRun:
        run = known.run
        began = {
            tool.tool_call_id: known.began.get(tool.tool_call_id, run.created_at) for tool in known.tools
        }
        asked = [
            Requirement(
                id=tool.request_id,
                created_at=began[tool.tool_call_id],
                tool_execution=ToolExecution.of(tool, began[tool.tool_call_id]),
                confirmation=tool.confirmed,
                confirmation_note=tool.confirmation_note,
            )
            for tool in known.tools
            if tool.request_id
        ]
        return cls(
            **known.common,
            session_id=session_of(run),
            input=RunInput(input_content=run.task),
            status=known.agentos_status,
            tools=[ToolExecution.of(each, began[each.tool_call_id]) for each in known.tools],
            requirements=asked or None,
            created_at=int(run.created_at.timestamp()),
        )

    def event(self, name: str, **more: Any) -> str:
        about = {
            "created_at": int(time.time()),
            "event": name,
            "agent_id": self.agent_id,
            "agent_name": self.agent_name,
            "run_id": str(self.run_id),
            "session_id": self.session_id,
        }
        data = json.dumps(about | more, ensure_ascii=False, separators=(",", ":"))
        return f"event: {name}\ndata: {data}\n\n"


class Accepted(ResponseModel):
    """A run that continues in the background."""

    run_id: UUID
    session_id: str
    status: AgentOSStatus


def _tool_details(tool: Tool) -> dict[str, Any]:
    details: dict[str, Any] = dict(tool.offered["function"])
    return details | {"requires_confirmation": tool.requires_approval}
