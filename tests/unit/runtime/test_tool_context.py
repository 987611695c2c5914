"""A call's context is told to code, never to the model."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, NewType, Optional, TypeVar, Union

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from agent.runtime.function_agents import function_agent
from agent.runtime.signature import context_parameter
from agent.runtime.tool import Tool, ToolContext
from signoff import ToolContext as PublicContext
from signoff import tool


class OwnContext(ToolContext):
    pass


Alias = TypeAliasType("Alias", ToolContext)
Named = NewType("Named", ToolContext)
Bound = TypeVar("Bound", bound=ToolContext)


class Wrapped(BaseModel):
    inner: ToolContext


@dataclasses.dataclass
class Held:
    inner: ToolContext | None = None


class Callback:
    def __call__(self, order_id: int, context: ToolContext) -> None: ...

    def method(self, order_id: int, context: ToolContext) -> None: ...


def function(annotation: Any, name: str = "about") -> Callable[..., str]:
    def buy(order_id: int, about: Any = None) -> str:
        return ""

    def named(order_id: int, ctx: Any = None) -> str:
        return ""

    chosen = named if name == "ctx" else buy
    chosen.__annotations__ = {"order_id": int, "return": str}
    if annotation is not None:
        chosen.__annotations__[name] = annotation
    return chosen


CONTEXTS = [
    ToolContext,
    PublicContext,
    "ToolContext",
    "ToolContext | None",
    "Optional['ToolContext']",
    "Annotated['ToolContext', 'why']",
    Optional[ToolContext],  # noqa: UP045 (older spellings count, too)
    Union[None, ToolContext],  # noqa: UP007
    ToolContext | None,
    Annotated[ToolContext, "why"],
    Annotated[ToolContext | None, Field(description="why")],
    Optional[Annotated[ToolContext, "why"]],  # noqa: UP045
    ToolContext | OwnContext,
    OwnContext,
    "OwnContext",
    Alias,
    Named,
    Bound,
]


@pytest.mark.parametrize("annotation", CONTEXTS, ids=str)
def test_the_model_never_sees_the_context(annotation: Any) -> None:
    """Whatever the parameter is called and however its type is written, it is no argument, for tools and hooks."""
    made = Tool(function(annotation), on_pending=function(annotation), on_refused=function(annotation))
    assert list(made.signature.schema["properties"]) == list(made.signature.names) == ["order_id"]
    assert "$defs" not in made.signature.schema
    assert made.signature.context == context_parameter(function(annotation)) == "about"


@pytest.mark.parametrize("annotation", [None, Any, object, ToolContext])
def test_a_ctx_without_a_type_is_the_context(annotation: Any) -> None:
    """What says nothing but its name is meant, too; a parameter of another type is an argument, also named `ctx`."""
    assert Tool(function(annotation, "ctx")).signature.context == "ctx"
    other = Tool(function(int | None, "ctx")).signature
    assert (other.names, other.context) == (("order_id", "ctx"), None)


@pytest.mark.parametrize(
    "hook",
    [
        Callback(),
        Callback().method,
        functools.partial(Callback().method, order_id=1),
        lambda order_id, ctx: None,
    ],
    ids=["object", "method", "partial", "lambda"],
)
def test_hooks_of_any_kind_take_it(hook: Callable[..., Any]) -> None:
    """Callable objects, methods, partial functions and lambdas are hooks like functions."""
    assert context_parameter(hook) in ("context", "ctx")
    Tool(function(ToolContext), on_pending=hook)


def two(a: ToolContext, b: ToolContext | None = None) -> str:
    return ""


def two_with_ctx(ctx, called: ToolContext) -> str:
    return ""


def several(*contexts: ToolContext) -> str:
    return ""


def keywords(**contexts: ToolContext) -> str:
    return ""


def positional(context: ToolContext, /) -> str:
    return ""


@pytest.mark.parametrize(
    ("defined", "words"),
    [
        (two, "a and b each take the ToolContext; only one parameter can"),
        (two_with_ctx, "ctx and called each take the ToolContext"),
        (several, "must be a plain named parameter"),
        (keywords, "must be a plain named parameter"),
        (positional, "must be a plain named parameter"),
        (function(ToolContext | int), '"about" is a ToolContext or something else'),
        (function(str | Annotated[ToolContext, 1] | None), '"about" is a ToolContext or something else'),
        (function(list[ToolContext]), '"about" has a ToolContext inside its type'),
        (function(dict[str, ToolContext | None]), '"about" has a ToolContext inside its type'),
        (function(tuple[int, Alias]), '"about" has a ToolContext inside its type'),
        (function(Wrapped), '"about" has a ToolContext inside its type'),
        (function(Held), '"about" has a ToolContext inside its type'),
        (function(list[OwnContext]), '"about" has a ToolContext inside its type'),
    ],
)
def test_what_would_offer_the_context_is_refused(defined: Callable[..., Any], words: str) -> None:
    """A second context, several, and one inside another type are refused when the tool is defined, by parameter."""
    with pytest.raises(TypeError, match=words):
        tool(defined)


@pytest.mark.parametrize("hook", [two, two_with_ctx, several, keywords, positional])
@pytest.mark.parametrize("part", ["on_pending", "on_refused"])
def test_hooks_take_one_too(hook: Callable[..., Any], part: str) -> None:
    """A hook with two of them, or with parameters that cannot be named, is refused."""
    with pytest.raises(TypeError, match=f"{part}: .*(only one parameter can|plain named parameter)"):
        tool(**{part: hook})(function(ToolContext))  # type: ignore[call-overload]


@pytest.mark.parametrize("annotation", CONTEXTS, ids=str)
def test_facts_and_function_agents_get_none(annotation: Any) -> None:
    """Facts belong to an action, not to a call, and a function agent gets its task: both say so."""
    with pytest.raises(TypeError, match='facts: there is no ToolContext to pass as "about"'):
        Tool(function(ToolContext), facts=function(annotation))

    async def worker(task: Any) -> str:
        return ""

    worker.__annotations__ = {"task": annotation}
    with pytest.raises(TypeError, match='there is no ToolContext to pass as "task"'):
        function_agent(worker)


def test_a_step_leaves_it_out() -> None:
    """A plain function and a tool as steps have the same arguments as for a model."""

    @function_agent(tools=[function(ToolContext)])
    async def worker(task: str) -> str:
        await asyncio.sleep(0)
        return task

    step = worker.tool("buy")
    assert step is not None
    assert step.signature.names == ("order_id",)
