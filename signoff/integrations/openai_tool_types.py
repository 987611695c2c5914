"""What a tool of the OpenAI Agents SDK takes: its JSON schema, and the types of its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from agents import FunctionTool
from agents.function_schema import FuncSchema, function_schema
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from signoff.canonical import plain_object
from signoff.errors import MalformedArguments
from signoff.json_form import CHANGED, difference, dumps_of_model, filled, shown_path, stable_form


@dataclass(frozen=True)
class ToolTypes:
    """``function``: None for a tool that `@function_tool` did not make."""

    schema: Validator
    function: FuncSchema | None

    @classmethod
    def of(cls, tool: FunctionTool) -> ToolTypes:
        schema = tool.params_json_schema
        function = getattr(tool, "__wrapped__", None)
        own = function and function_schema(function, strict_json_schema=tool.strict_json_schema)
        return cls(validator_for(schema)(schema), own)

    def form(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Raises MalformedArguments, with the path."""
        form = _with_defaults(self.schema.schema, given) if self.function is None else self._read_form(given)
        problems = self.schema.iter_errors(filled(given, form))
        if first := min(problems, key=lambda each: len(each.absolute_path), default=None):
            raise MalformedArguments(shown_path(tuple(first.absolute_path)), first.message)
        return form

    def check_judged(self, judged: Mapping[str, Any]) -> None:
        """Raises MalformedArguments, with the path, if the tool would get something else."""
        if (path := difference(dict(judged), self.form(judged))) is not None:
            raise MalformedArguments(path, CHANGED)

    def _read_form(self, given: Mapping[str, Any]) -> dict[str, Any]:
        model = cast("FuncSchema", self.function).params_pydantic_model
        return stable_form(lambda arguments: model(**arguments), dumps_of_model, given, vars)


def _with_defaults(schema: Any, given: Any, root: Any = None) -> Any:
    """Raises MalformedArguments."""
    root = schema if root is None else root
    if isinstance(schema, Mapping) and isinstance(name := schema.get("$ref"), str):
        schema = root.get("$defs", {}).get(name.removeprefix("#/$defs/"))
    if not isinstance(schema, Mapping):
        return given
    if isinstance(given, list):
        return [_with_defaults(schema.get("items"), each, root) for each in given]
    properties = schema.get("properties")
    if not isinstance(given, Mapping) or not isinstance(properties, Mapping):
        return given
    added = {
        name: each["default"]
        for name, each in properties.items()
        if name not in given and isinstance(each, Mapping) and "default" in each
    }
    return plain_object(
        {name: _with_defaults(properties.get(name), value, root) for name, value in given.items()} | added
    )
