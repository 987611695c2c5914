"""Signoff: durable human approvals for AI agents, in Slack. Everything that an agent's author needs.

from signoff import Agent, tool

@tool(requires_approval=True)
def delete_records(table_name: str, count: int) -> str:
    \"\"\"Delete records from a database table.\"\"\"
    ...

cleaner = Agent("cleaner", "You keep the tables tidy.", tools=[delete_records])
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signoff.errors import (
    AlreadyClaimed,
    ApiError,
    ApprovalExpired,
    CollaborationError,
    FactsFailed,
    MalformedArguments,
    SignoffError,
    Unreachable,
    UnusableForm,
)
from signoff.values import Person, Risk

if TYPE_CHECKING:
    from agent.runtime.agents import Agent, LoadError, Registry, load_agents
    from agent.runtime.function_agents import FunctionAgent, function_agent
    from agent.runtime.steps import (
        Answer,
        Decision,
        Started,
        StepFailed,
        ask,
        set_label,
        set_status,
        sleep,
        start,
        step,
    )
    from agent.runtime.tool import NotDone, Tool, ToolContext, tool
    from signoff.client import ApprovalClient, AsyncApprovalClient, ProposedAction, answered, concluded
    from signoff.client.webhook import is_from_signoff

__all__ = [
    "Agent",
    "AlreadyClaimed",
    "Answer",
    "ApiError",
    "ApprovalClient",
    "ApprovalExpired",
    "AsyncApprovalClient",
    "CollaborationError",
    "Decision",
    "FactsFailed",
    "FunctionAgent",
    "LoadError",
    "MalformedArguments",
    "NotDone",
    "Person",
    "ProposedAction",
    "Registry",
    "Risk",
    "SignoffError",
    "Started",
    "StepFailed",
    "Tool",
    "ToolContext",
    "Unreachable",
    "UnusableForm",
    "answered",
    "ask",
    "concluded",
    "function_agent",
    "is_from_signoff",
    "load_agents",
    "set_label",
    "set_status",
    "sleep",
    "start",
    "step",
    "tool",
]

_CLIENT = {
    "ApprovalClient": "signoff.client",
    "AsyncApprovalClient": "signoff.client",
    "ProposedAction": "signoff.client",
    "answered": "signoff.client",
    "concluded": "signoff.client",
    "is_from_signoff": "signoff.client.webhook",
}
_SERVICE = {
    "Agent": "agent.runtime.agents",
    "Answer": "agent.runtime.steps",
    "Decision": "agent.runtime.steps",
    "FunctionAgent": "agent.runtime.function_agents",
    "LoadError": "agent.runtime.agents",
    "NotDone": "agent.runtime.tool",
    "Registry": "agent.runtime.agents",
    "Started": "agent.runtime.steps",
    "StepFailed": "agent.runtime.steps",
    "Tool": "agent.runtime.tool",
    "ToolContext": "agent.runtime.tool",
    "ask": "agent.runtime.steps",
    "function_agent": "agent.runtime.function_agents",
    "load_agents": "agent.runtime.agents",
    "set_label": "agent.runtime.steps",
    "set_status": "agent.runtime.steps",
    "sleep": "agent.runtime.steps",
    "start": "agent.runtime.steps",
    "step": "agent.runtime.steps",
    "tool": "agent.runtime.tool",
}


def __getattr__(name: str) -> Any:
    if name in _SERVICE:
        _check_service(name)
    elif name not in _CLIENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_CLIENT.get(name) or _SERVICE[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


def _check_service(name: str) -> None:
    """Raises ImportError if the service is not installed or another `agent` package hides it."""
    ours = Path(__file__).resolve().parents[1] / "agent" / "__init__.py"
    if not ours.is_file():
        raise ImportError(f"signoff.{name} needs the whole service: pip install . in its checkout")
    spec = sys.modules["agent"].__spec__ if "agent" in sys.modules else find_spec("agent")
    origin = spec.origin if spec else None
    if origin is None or Path(origin).resolve() != ours:
        hiding = (
            origin or ", ".join(spec.submodule_search_locations or []) if spec else "a module named agent"
        )
        raise ImportError(
            f"signoff.{name} needs the package agent of signoff, and {hiding} hides it: rename that"
        )
