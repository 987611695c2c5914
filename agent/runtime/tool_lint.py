"""Likely mistakes in tools: text that the model does not see, and blocking code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from agent.runtime.agents import Delegate, Registry
from agent.runtime.step_tools import StepTool
from agent.runtime.tool import Tool


def lint_tools(registry: Registry) -> list[str]:
    """Lines `my_agents.py:12: …`, in the order of agents."""
    tools = {tool.name: tool for agent in registry for tool in agent.tools}
    return [
        f"{_place(tool.function)}: {tool.name} {sentence}"
        for tool in tools.values()
        if not isinstance(tool, Delegate) and hasattr(tool.function, "__code__")
        for sentence in _of_tool(tool)
    ]


def _of_tool(tool: Tool) -> Iterator[str]:
    if not tool.description and not isinstance(tool, StepTool):
        yield "has no docstring, so the model does not know what it does; write one below its `def`"
    if inspect.iscoroutinefunction(tool.function) and _sleeps(tool.function.__code__):
        yield "calls time.sleep, which holds up all other async tools; write `await asyncio.sleep(…)`"


def _sleeps(code: CodeType) -> bool:
    return {"time", "sleep"} <= set(code.co_names)


def _place(function: Callable[..., Any]) -> str:
    code: CodeType = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
