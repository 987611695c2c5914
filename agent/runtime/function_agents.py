"""Function agents: ordinary async Python whose waiting is a row. `step` does, `ask` asks people, `set_status` tells.

    @function_agent(tools=[archive, delete])
    async def cleaner(task: str) -> str:
        archived = await step(archive, table=task)
        decision = await ask(f"Delete {archived} archived rows of {task}?", timeout="24h")
        decision.require()
        await step(delete, table=task)
        return "Done."

The function is run from its start whenever it may go on, and what it has done before is not done again: a recorded
step returns what it returned. So what lies between the steps must come out the same each time; what does not is
noticed, reported, and nothing is executed.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, Protocol, overload
from uuid import UUID

from pydantic_core import from_json, to_json

from agent.domain import checkpoint_fields
from agent.domain.policy import Rule, ToolTraits
from agent.runtime import docstrings
from agent.runtime.agents import Agent, Delegate
from agent.runtime.tool import Tool, ToolContext
from signoff.errors import CollaborationError, SignoffError
from signoff.masks import redact_by_name
from signoff.values import Action, Person, Risk

P = ParamSpec("P")

ASK = "ask"
"""The tool as which every question of a function agent is judged and recorded."""

MOST_BYTES = 1024 * 1024
"""How much a step may return, as JSON; what is larger belongs into a store, and its address into the result."""

Function = Callable[..., Awaitable[Any]]
Doing = Tool | Agent | Callable[..., Any]
"""What a step may be: a `@tool`, another agent, or any function, sync or async."""


class StepFailed(SignoffError):
    """A step raised, or did not do anything; its text says what. The same error again whenever it is replayed."""


class NonDeterministic(SignoffError):
    """The function did something else than the first time, so what is recorded does not fit it any more."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What people said. ``cause``: approved, rejected, expired, withdrawn or denied (by policy).

    Arguments may be edited.
    """

    approved: bool
    cause: str
    reason: str | None = None
    reviewer: Person | None = None
    request_id: UUID | None = None
    arguments: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.approved

    def require(self) -> None:
        """Go on only with an approval. Raises CollaborationError, which ends the run as denied, with its cause."""
        if not self.approved:
            raise CollaborationError(
                "expired" if self.cause == "expired" else "rejected",
                request_id=str(self.request_id),
                reason=self.reason,
                reviewer=self.reviewer.user_id if self.reviewer else None,
            )


@dataclass(frozen=True, eq=False)
class StepTool(Tool):
    """A tool as a function agent calls it, with a JSON result.

    `plain`: a function that only naming checkpoints ask about.
    """

    plain: bool = True

    @property
    def traits(self) -> ToolTraits:
        said = super().traits
        return replace(said, read_only=True, exempt="is a plain step") if self.plain else said

    def told(self, value: Any) -> str:
        """The result as JSON. Raises ValueError for one that is too large or no JSON."""
        encoded = to_json(value)
        if len(encoded) > MOST_BYTES:
            raise ValueError(f"it returned {len(encoded):,} bytes, and {MOST_BYTES:,} can be kept")
        return encoded.decode()

    @classmethod
    def of(cls, given: Doing) -> Tool:
        """From a `@tool`, an agent or a plain function. Raises TypeError or ValueError for what cannot be a step."""
        if isinstance(given, Agent):
            return given.as_tool()
        if isinstance(given, cls | Delegate):
            return given
        if not isinstance(given, Tool):
            return cls(given)
        said = {name: getattr(given, name) for name in _SAID}
        return cls(given.function, plain=False, **said)


_SAID = (
    "name",
    "description",
    "requires_approval",
    "risk",
    "read_only",
    "idempotent",
    "facts",
    "on_pending",
    "on_refused",
    "timeout",
    "retries",
    "backoff",
    "retry_on",
    "concurrency",
    "across_processes",
    "version",
)


@dataclass(frozen=True, eq=False)
class AskTool(StepTool):
    """`ask` as a tool that does nothing but to be approved."""

    def terms(self, rule: Rule, action: Action) -> Rule:
        """The author's own deadline and risk, and a no that the function hears of instead of being ended by it."""
        said: dict[str, Any] = {"on_reject": "tell_model"}
        if rule.description_template is None:
            # the author's own words: nothing in them is filled in, and no quotation marks are put around them
            shown = redact_by_name(action.arguments, rule.redact).value["question"]
            said["description_template"] = shown.replace("{", "{{").replace("}", "}}")
        if (seconds := action.arguments.get("timeout_seconds")) is not None:
            said["timeout"] = timedelta(seconds=float(seconds))
        if (risk := action.arguments.get("risk")) is not None and Risk(risk) > rule.risk:
            said["risk"] = Risk(risk)
        return rule.model_copy(update=said)


def _asked(
    question: str,
    arguments: dict[str, Any] | None = None,
    risk: str | None = None,
    timeout_seconds: float | None = None,
) -> dict[str, Any] | None:
    """Ask people, and go on with what they approved."""
    return arguments


_QUESTION = AskTool(_asked, name=ASK, requires_approval=True, idempotent=True)


@dataclass(frozen=True)
class FunctionAgent(Agent):
    """An agent without a model: its `function` is called with the run's task. Made by `@function_agent`.

    `tools` are everything that it may do in steps; `max_steps` bounds the steps and questions of one run, and
    `seconds` each stretch of the function between two of them; `max_seconds` is as for every agent.
    """

    function: Function | None = None
    seconds: float = 60.0

    def __post_init__(self) -> None:
        steps = [StepTool.of(given) for given in self.tools]
        if any(known.name == ASK for known in steps):
            raise ValueError(f'Agent {self.name!r}: a step cannot be named "{ASK}"')
        object.__setattr__(self, "tools", (*steps, _QUESTION))
        super().__post_init__()
        parameters = list(inspect.signature(self.function).parameters) if self.function else []
        if not inspect.iscoroutinefunction(self.function) or len(parameters) > 1:
            raise TypeError(f"Agent {self.name!r}: write `async def {self.name}(task: str)`")


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
        words = description or docstrings.lead(decorated)
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


class Journal(Protocol):
    """What a running function talks to: the record of its run."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any: ...

    async def ask(self, arguments: Mapping[str, Any]) -> Decision: ...

    async def tell(self, status: str) -> None: ...


journal: ContextVar[Journal] = ContextVar("signoff_journal")


@overload
async def step(doing: Agent, /, **arguments: Any) -> Any: ...
@overload
async def step(
    doing: Callable[Concatenate[ToolContext, P], Any], /, *positional: P.args, **arguments: P.kwargs
) -> Any: ...
@overload
async def step(doing: Callable[P, Any], /, *positional: P.args, **arguments: P.kwargs) -> Any: ...
async def step(doing: Doing, /, *positional: Any, **arguments: Any) -> Any:
    """Do this once, and give back what it returned, now and whenever the function is run again.

    The arguments are given by their names. Checkpoints apply as to any tool call. Raises StepFailed when it raised, and
    CollaborationError when people (or nobody in time) did not let it run.
    """
    if positional:
        raise TypeError("step takes arguments by their names alone")
    named = doing.name if isinstance(doing, Tool | Agent) else getattr(doing, "__name__", "")
    return await _journal().call(named, arguments)


async def ask(
    question: str,
    *,
    timeout: str | float | timedelta | None = None,
    risk: Risk | str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Decision:
    """Ask people and wait for their decision, for days if need be: the run is parked and costs nothing.

    ``timeout`` ("24h", seconds, or the checkpoint's); a deadline that passes is no approval. ``arguments`` stand on
    the card; where the checkpoint allows edits, the decision has them as edited.
    """
    asked: dict[str, Any] = {"question": question}
    if arguments is not None:
        asked["arguments"] = dict(arguments)
    if risk is not None:
        asked["risk"] = Risk(risk).value
    if timeout is not None:
        asked["timeout_seconds"] = _seconds(timeout)
    return await _journal().ask(asked)


async def set_status(status: str) -> None:
    """Tell people how far it is: one line in the run's first message, until the next one."""
    await _journal().tell(status)


def decode_result(text: str) -> Any:
    """What a step returned, from its record."""
    return from_json(text)


def _journal() -> Journal:
    try:
        return journal.get()
    except LookupError:
        raise RuntimeError("step, ask and set_status work inside a @function_agent only") from None


def _seconds(timeout: str | float | timedelta) -> float:
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    return checkpoint_fields.duration(timeout).total_seconds() if isinstance(timeout, str) else float(timeout)
