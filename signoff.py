"""Signoff: durable human approvals for AI agents, in Slack. Everything that an agent's author needs.

from signoff import Agent, tool

@tool(requires_approval=True)
def delete_records(table_name: str, count: int) -> str:
    \"\"\"Delete records from a database table.\"\"\"
    ...

cleaner = Agent("cleaner", "You keep the tables tidy.", tools=[delete_records])
"""

from agent.client import AlreadyClaimed, ApiError, ApprovalClient, AsyncApprovalClient, Unreachable, concluded
from agent.client.webhook import is_from_signoff
from agent.domain.errors import CollaborationError, MalformedArguments, SignoffError
from agent.domain.people import Person
from agent.domain.policy import Risk
from agent.runtime.agents import Agent, LoadError, Registry, load_agents
from agent.runtime.functions import (
    Decision,
    FunctionAgent,
    StepFailed,
    ask,
    function_agent,
    set_status,
    step,
)
from agent.runtime.tool import NotDone, Tool, ToolContext, tool

__all__ = [
    "Agent",
    "AlreadyClaimed",
    "ApiError",
    "ApprovalClient",
    "AsyncApprovalClient",
    "CollaborationError",
    "Decision",
    "FunctionAgent",
    "LoadError",
    "MalformedArguments",
    "NotDone",
    "Person",
    "Registry",
    "Risk",
    "SignoffError",
    "StepFailed",
    "Tool",
    "ToolContext",
    "Unreachable",
    "ask",
    "concluded",
    "function_agent",
    "is_from_signoff",
    "load_agents",
    "set_status",
    "step",
    "tool",
]
