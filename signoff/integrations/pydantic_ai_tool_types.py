"""How the types of a pydantic-ai tool read a call's arguments, which people then see as those types write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext

from signoff.canonical import canonical_bytes, parse_arguments
from signoff.errors import MalformedArguments, SignoffError
from signoff.json_form import check_written, guarded, stable_form, written_by_type


def arguments_of(call: ToolCallPart) -> dict[str, Any]:
    """Raises MalformedArguments."""
    return call.args if isinstance(call.args, dict) else parse_arguments(call.args or "{}")


def use_stable_form(ctx: RunContext[Any], call: ToolCallPart) -> None:
    """Raises ModelRetry, with the path."""
    try:
        given = arguments_of(call)
        form = _stable_form(ctx, call, given)
    except MalformedArguments as error:
        raise ModelRetry(f"the arguments of {call.tool_name} cannot be used: {error}") from None
    if (encoded := canonical_bytes(form)) != canonical_bytes(given):
        call.args = encoded.decode()
        call.id = None  # a provider would send its own copy of the call instead


def _stable_form(ctx: RunContext[Any], call: ToolCallPart, given: Mapping[str, Any]) -> dict[str, Any]:
    """Raises MalformedArguments."""
    tools = ctx.tool_manager.tools if ctx.tool_manager else None
    if tools is None or call.tool_name not in tools:
        raise SignoffError(f"{call.tool_name} is not a tool of this step, so nobody can be asked about it")
    validator = tools[call.tool_name].args_validator

    def read(arguments: Mapping[str, Any]) -> dict[str, Any]:
        encoded = canonical_bytes(arguments)
        values: dict[str, Any] = validator.validate_json(encoded, context=ctx.validation_context)
        return values

    refused: MalformedArguments | None = None
    for write in (
        (written_by_type, _written_alone)
        if given.keys() <= guarded(read, given).keys()
        else (_written_alone,)
    ):
        try:
            return stable_form(read, write, given, lambda values: values)
        except MalformedArguments as error:
            refused = refused or error
    raise refused or AssertionError


def _written_alone(values: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model writes a tool's only argument without its name if that is an object of its own."""
    (alone,) = values.values()
    return written_by_type(alone)


def check_judged(call: ToolCallPart, args: Mapping[str, Any], judged: Mapping[str, Any]) -> None:
    """Raises SignoffError if the tool would get other values than those that were judged."""
    dumps = [written_by_type(args), *([_written_alone(args)] if len(args) == 1 else [])]
    try:
        check_written(judged, *dumps)
    except MalformedArguments as error:
        raise SignoffError(f"{call.tool_name} does not run: {error}") from None
