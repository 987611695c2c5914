"""What a tool is: its schema for the model, its strictness, and mistakes found when it is defined."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agent.runtime.tool import Tool, ToolContext, tool
from signoff.errors import MalformedArguments
from signoff.values import Risk


class Line(BaseModel):
    sku: str
    count: int = 1


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Opaque:
    pass


@tool
def order(
    customer: str,
    lines: list[Line],
    *,
    size: Size = Size.SMALL,
    speed: Literal["slow", "fast"] = "slow",
    limit: Annotated[Decimal | None, Field(ge=0)] = None,
    on: datetime.date | None = None,
    ctx: ToolContext | None = None,
) -> str:
    """Order some things
    for a customer.

    More about it that the model need not read.

    Args:
        customer: Who pays,
            by full name.
        lines (list[Line]): What to order.

    Returns:
        customer: not an argument
    """
    return f"{customer} ordered {len(lines)}"


def test_the_model_is_offered_name_lead_and_argument_descriptions() -> None:
    """The docstring's lead and its Args become descriptions; ctx stays ours; every object is closed."""
    offered = order.offered["function"]
    schema = offered["parameters"]
    assert (offered["name"], offered["description"]) == ("order", "Order some things for a customer.")
    assert list(schema["properties"]) == ["customer", "lines", "size", "speed", "limit", "on"]
    assert schema["properties"]["customer"] == {"description": "Who pays, by full name.", "type": "string"}
    assert schema["properties"]["lines"]["description"] == "What to order."
    assert schema["required"] == ["customer", "lines"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Line"]["additionalProperties"] is False


def test_defaults_are_written_out_where_the_model_left_them_open() -> None:
    """What people approve holds every value that the function will get, nested ones too."""
    given_arguments = {"customer": "Ada", "lines": [{"sku": "a"}, {"count": 2, "sku": "b"}], "limit": "1.50"}
    assert order.signature.complete(given_arguments) == {
        "customer": "Ada",
        "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}],
        "size": "s",
        "speed": "slow",
        "limit": 1.5,
        "on": None,
    }


def test_values_are_those_that_the_annotations_promise() -> None:
    """The function gets models, enums, dates and decimals, made from plain JSON."""
    values = order.signature.values(
        {"customer": "Ada", "lines": [{"sku": "a"}], "size": "l", "limit": 0.1, "on": "2026-01-31"}
    )
    assert values == {
        "customer": "Ada",
        "lines": [Line(sku="a")],
        "size": Size.LARGE,
        "speed": "slow",
        "limit": Decimal("0.1"),
        "on": datetime.date(2026, 1, 31),
    }


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"customer": 7}, "$.customer"),
        ({"customer": None}, "$.customer"),
        ({"lines": [{"sku": "a", "count": "2"}]}, "$.lines[0].count"),
        ({"lines": [{"sku": "a", "count": 1.5}]}, "$.lines[0].count"),
        ({"lines": [{"sku": "a", "count": True}]}, "$.lines[0].count"),
        ({"lines": [{"sku": "a", "price": 1}]}, "$.lines[0].price"),
        ({"lines": "a"}, "$.lines"),
        ({"size": "medium"}, "$.size"),
        ({"speed": "FAST"}, "$.speed"),
        ({"on": 1}, "$.on"),
        ({"ctx": None}, "$.ctx"),
        ({"what else": 1}, "$['what else']"),
    ],
)
def test_nothing_is_bent_into_shape(change: dict[str, Any], path: str) -> None:
    """A value that is not of the declared type is refused with its path, never converted; nothing is ignored."""
    arguments = {"customer": "Ada", "lines": [], **change}
    with pytest.raises(MalformedArguments) as refused:
        order.signature.complete(arguments)
    assert refused.value.path == path


def test_all_problems_are_told_at_once() -> None:
    """The model reads every problem, so that it can mend them in one go."""
    with pytest.raises(MalformedArguments, match=r"\$\.customer: .*; \$\.lines: .*; \$\.z: "):
        order.signature.values({"customer": 1, "lines": 2, "z": 3})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["customer", "lines", "size", "on", "x"]), JSON))
def test_completed_arguments_mean_the_same_and_are_stable(arguments: dict[str, Any]) -> None:
    """Whatever passes gives the same call, and completing twice changes nothing."""
    try:
        completed = order.signature.complete(arguments)
    except MalformedArguments:
        return
    assert completed["customer"] == arguments["customer"]
    assert order.signature.values(completed) == order.signature.values(arguments)
    assert order.signature.complete(completed) == completed


def test_names_of_pydantics_own_are_plain_parameters() -> None:
    """A parameter may be called json, copy, model_config or _private."""

    @tool
    def odd(json: str, copy: int, model_config: bool, _private: str = "x") -> None: ...

    arguments = {"json": "a", "copy": 1, "model_config": True}
    assert odd.signature.values(arguments) == {**arguments, "_private": "x"}


def test_a_tool_is_callable_like_its_function() -> None:
    """Tests of a tool call it directly."""
    assert order("Ada", []) == "Ada ordered 0"


def untyped(a) -> None: ...
def opaque(a: Opaque) -> None: ...
def function(a: Callable[[int], int]) -> None: ...
def unresolved(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def several(*a: int) -> None: ...
def keywords(**a: int) -> None: ...
def positional(a: int, /) -> None: ...
def mismatch(a: int = "1") -> None: ...  # type: ignore[assignment]
def field_default(a: int = Field(default=1)) -> None: ...
def renamed(a: Annotated[int, Field(alias="b")]) -> None: ...


@pytest.mark.parametrize(
    ("defined", "words"),
    [
        (untyped, 'parameter "a" has no type annotation'),
        (opaque, 'parameter "a" has the type Opaque, which has no JSON schema'),
        (function, 'parameter "a" has the type Callable'),
        (unresolved, "'Nowhere' is not defined"),
        (several, r"parameter \*a: "),
        (keywords, r"parameter \*\*a: "),
        (positional, "must be a plain named parameter"),
        (mismatch, """parameter "a" has the default '1', which does not fit"""),
        (field_default, 'write parameter "a" as Annotated'),
    ],
)
def test_a_function_that_cannot_be_offered_is_refused_by_parameter(
    defined: Callable[..., Any], words: str
) -> None:
    """The mistake is found at import, and its text says which tool, which parameter and why."""
    with pytest.raises(TypeError, match=words) as refused:
        tool(defined)
    assert str(refused.value).startswith(f"@tool {defined.__name__}: ")


@pytest.mark.filterwarnings("ignore:The 'alias' attribute")
def test_the_parameters_own_name_is_what_the_model_sees() -> None:
    """An alias in an annotation cannot rename a parameter between model and function."""
    assert list(tool(renamed).signature.schema["properties"]) == ["a"]


def plain(a: int) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"risk": "huge"}, "risk 'huge' is none of low, medium, high, critical"),
        ({"timeout": 0}, "timeout must be more than 0 seconds"),
        ({"version": ""}, "version must not be empty"),
        ({"name": "two words"}, "a name has 1 to 64"),
        ({"facts": lambda b: {}}, 'facts: there is no argument "b" to pass it'),
        ({"on_pending": lambda a, cause: None}, 'on_pending: there is no argument "cause"'),
        ({"on_refused": lambda **a: None}, "on_refused: parameter"),
        ({"pending_text": "{a}"}, "pending_text: column"),
        ({"read_only": True, "on_pending": lambda: None}, "a read-only tool has nothing"),
        ({"external": True, "concurrency": 2}, "are for tools that run here"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], words: str) -> None:
    """Each mistake in what a tool says of itself is named when it is defined."""
    with pytest.raises((TypeError, ValueError), match=words):
        tool(**options)(plain)


def test_hooks_and_facts_take_what_they_need() -> None:
    """Facts and hooks name some of the arguments; on_refused may also ask for the cause."""
    made = tool(facts=lambda a: {}, on_pending=lambda: None, on_refused=lambda cause, a: None, risk="high")(
        plain
    )
    assert isinstance(made, Tool)
    assert made.traits.risk is Risk.HIGH
