"""Signoff: durable human approvals for AI agents, in Slack. Everything that an agent's author needs.

from signoff import Agent, tool

@tool(requires_approval=True)
def delete_records(table_name: str, count: int) -> str:
    \"\"\"Delete records from a database table.\"\"\"
    ...

cleaner = Agent("cleaner", "You keep the tables tidy.", tools=[delete_records])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from signoff.errors import (
    AlreadyClaimed,
    ApiError,
    CollaborationError,
    MalformedArguments,
    SignoffError,
    Unreachable,
)
from signoff.values import Person, Risk

if TYPE_CHECKING:
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
    from signoff.client import ApprovalClient, AsyncApprovalClient, concluded
    from signoff.client.webhook import is_from_signoff

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

_MODULES = {
    "signoff.client": ("ApprovalClient", "AsyncApprovalClient", "concluded"),
    "signoff.client.webhook": ("is_from_signoff",),
    "agent.runtime.agents": ("Agent", "LoadError", "Registry", "load_agents"),
    "agent.runtime.functions": (
        "Decision",
        "FunctionAgent",
        "StepFailed",
        "ask",
        "function_agent",
        "set_status",
        "step",
    ),
    "agent.runtime.tool": ("NotDone", "Tool", "ToolContext", "tool"),
}


def __getattr__(name: str) -> Any:
    """Import what stands on the service when it is used first."""
    for module, names in _MODULES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
