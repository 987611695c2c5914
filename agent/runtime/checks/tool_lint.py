"""Likely mistakes in tools: text that the model does not see, and blocking code."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, UnionType
from typing import Any, Union

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
    if tool.facts is not None and (kind := _no_mapping(tool.facts)) is not None:
        named = getattr(tool.facts, "__name__", "a function")
        yield f'looks up its facts with {named}, which returns {kind}; return a dict, such as {{"price": 12.5}}'


def _no_mapping(facts: Callable[..., Any]) -> str | None:
    """What it returns by its annotation, if that is no mapping, so that each look-up would fail."""
    try:
        returned = typing.get_type_hints(facts).get("return", Any)
    except Exception:  # a name that is nowhere
        return None
    kinds = typing.get_args(returned) if typing.get_origin(returned) in (Union, UnionType) else (returned,)
    for kind in kinds:
        actual = typing.get_origin(kind) or kind
        if actual in (Any, object) or not isinstance(actual, type):
            return None
        if issubclass(actual, Mapping | Awaitable):
            return None
    return getattr(returned, "__name__", None) or str(returned)


def _sleeps(code: CodeType) -> bool:
    return {"time", "sleep"} <= set(code.co_names)


def _place(function: Callable[..., Any]) -> str:
    code: CodeType = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
