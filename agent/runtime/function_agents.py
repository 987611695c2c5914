"""Function agents: ordinary async Python whose waiting is a row.

    @function_agent(tools=[archive, delete])
    async def cleaner(task: str) -> str:
        archived = await step(archive, table=task)
        decision = await ask(f"Delete {archived} archived rows of {task}?", timeout="24h")
        decision.require()
        await step(delete, table=task)
        return "Done."

The function is run from its start whenever it may go on; a recorded step returns its recorded result instead of running
again. So the code between steps must be deterministic: a difference is detected and reported, and nothing is executed.
Tasks (`asyncio.gather`) run concurrently.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from agent.domain.request import ASK
from agent.runtime.agents import Agent
from agent.runtime.signature import context_parameter, summary
from agent.runtime.step_tools import PAUSE, QUESTION, SLEEP, Doing, StepTool
from agent.runtime.tool import Tool

Function = Callable[..., Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class FunctionAgent(Agent):
    """An agent without a model: `function` gets the run's task. Made by `@function_agent`.

    `tools` are all that its steps may use. `max_steps` limits a run's steps and questions, `seconds` each stretch of
    the function between two of them.
    """

    function: Function | None = None
    seconds: float = 60.0

    def __post_init__(self) -> None:
        steps = [StepTool.of(given) for given in self.tools]
        if any(known.name == ASK for known in steps):
            raise ValueError(f'Agent {self.name!r}: a step cannot be named "{ASK}"')
        object.__setattr__(self, "tools", (*steps, QUESTION))
        super().__post_init__()
        title = f"Agent {self.name!r}"
        if not inspect.iscoroutinefunction(self.function):
            raise TypeError(f"{title}: write `async def {self.name}(task: str)`")
        if context := context_parameter(self.function, title):
            raise TypeError(
                f'{title}: there is no ToolContext to pass as "{context}"; it takes the task, as text'
            )
        taken = inspect.signature(self.function).parameters.values()
        if len(taken) > 1 or any(each.kind is each.KEYWORD_ONLY for each in taken):
            raise TypeError(f"{title}: write `async def {self.name}(task: str)`")

    def tool(self, name: str) -> Tool | None:
        return super().tool(name) or (PAUSE if name == SLEEP else None)

    def begin(self, task: str) -> Coroutine[Any, Any, Any]:
        if self.function is None:
            raise AssertionError("a function agent needs a function")
        return self.function(*([task] if inspect.signature(self.function).parameters else []))


@overload
def function_agent(function: Function, /) -> FunctionAgent: ...
@overload
def function_agent(
    *,
    name: str = "",
    tools: Sequence[Doing] = (),
    version: str = "1",
    description: str = "",
    inputs: Mapping[str, Any] | None = None,
    max_steps: int = 1000,
    seconds: float = 60.0,
    max_seconds: float = 24 * 3600.0,
    concurrency: int | None = None,
    across_processes: bool = False,
) -> Callable[[Function], FunctionAgent]: ...
def function_agent(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    tools: Sequence[Doing] = (),
    version: str = "1",
    description: str = "",
    inputs: Mapping[str, Any] | None = None,
    max_steps: int = 1000,
    seconds: float = 60.0,
    max_seconds: float = 24 * 3600.0,
    concurrency: int | None = None,
    across_processes: bool = False,
) -> Any:
    """Make an agent of an async function that takes the task as text, or nothing."""

    def made(decorated: Function) -> FunctionAgent:
        named = name or getattr(decorated, "__name__", "")
        words = description or summary(decorated)
        return FunctionAgent(
            name=named,
            instructions=words or named,
            tools=tuple(StepTool.of(given) for given in tools),
            version=version,
            description=words,
            inputs=inputs or {},
            max_steps=max_steps,
            max_seconds=max_seconds,
            concurrency=concurrency,
            across_processes=across_processes,
            function=decorated,
            seconds=seconds,
        )

    return made if function is None else made(function)
