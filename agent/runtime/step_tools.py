"""A function agent's operations as tools: evaluated like any call, and all recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from agent.domain.answers import AnswerForm
from agent.domain.judgement import ToolTraits
from agent.domain.request import ASK
from agent.domain.rules import Rule
from agent.runtime import stored_text
from agent.runtime.agents import Agent, Delegate
from agent.runtime.tool import Tool
from signoff.masks import redact_by_name
from signoff.values import Action, Risk

SLEEP = "sleep"

MAX_BYTES = 1024 * 1024
"""A step's JSON result; store larger data elsewhere and return its address."""

Doing = Tool | Agent | Callable[..., Any]
"""A function may be sync or async."""


@dataclass(frozen=True, eq=False)
class StepTool(Tool):
    """A function agent's tool, with a JSON result. `plain`: needs approval only if a checkpoint names it."""

    plain: bool = True

    @property
    def traits(self) -> ToolTraits:
        said = super().traits
        return replace(said, read_only=True, exempt="is a plain step") if self.plain else said

    def stored_result(self, value: Any) -> str:
        """Raises ValueError if too large or not JSON."""
        try:
            encoded = to_json(value)
        except (ValueError, TypeError, RecursionError):
            raise ValueError(f"it {stored_text.no_json(value)}") from None
        if len(encoded) > MAX_BYTES:
            raise ValueError(f"it returned {len(encoded):,} bytes, and {MAX_BYTES:,} can be kept")
        return encoded.decode()

    def read_result(self, text: str) -> Any:
        """What the function returned, by its annotation; plain JSON if that does not fit. Raises ValueError."""
        plain = from_json(text)
        try:
            return plain if self._returned is None else self._returned.validate_json(text, strict=True)
        except Exception:  # a type's own validator may raise anything
            return plain

    @cached_property
    def _returned(self) -> TypeAdapter[Any] | None:
        try:
            hints = get_type_hints(self.function, include_extras=True)
            adapter: TypeAdapter[Any] = TypeAdapter(hints["return"])
        except Exception:  # no annotation, a name that is nowhere, or a type without a schema
            return None
        return None if adapter.core_schema["type"] == "generator" else adapter  # it could be read once only

    @classmethod
    def of(cls, given: Doing) -> Tool:
        """Raises TypeError or ValueError."""
        if isinstance(given, Agent):
            return given.as_tool()
        if isinstance(given, cls | Delegate):
            return given
        if not isinstance(given, Tool):
            return cls(given)
        said = {name: getattr(given, name) for name in _SAID}
        return cls(plain=False, **said)


# A step waits for its result, and no model reads about it. Any other option counts, also one that is new.
_SAID = {each.name for each in fields(Tool) if each.init} - {"background", "pending_text"}


@dataclass(frozen=True, eq=False)
class AskTool(StepTool):
    """`ask` as a tool without effect, which people approve."""

    def terms(self, rule: Rule, action: Action) -> Rule:
        """The author's deadline and risk; a rejection reaches the function instead of ending it."""
        said: dict[str, Any] = {"on_reject": "tell_model"}
        if rule.description_template is None:
            # the author's words are no template and have no quotation marks
            shown = redact_by_name(action.arguments, rule.redact).value["question"]
            said["description_template"] = shown.replace("{", "{{").replace("}", "}}")
        if (seconds := action.arguments.get("timeout_seconds")) is not None:
            said["timeout"] = timedelta(seconds=float(seconds))
        if (risk := action.arguments.get("risk")) is not None and Risk(risk) > rule.risk:
            said["risk"] = Risk(risk)
        return rule.model_copy(update=said)

    def answer_form(self, action: Action) -> AnswerForm | None:
        """What the question wants besides yes or no."""
        wanted = action.arguments.get("answer")
        return AnswerForm.stored(wanted) if wanted is not None else None


def _asked(
    question: str,  # noqa: ARG001
    arguments: dict[str, Any] | None = None,
    risk: str | None = None,  # noqa: ARG001
    timeout_seconds: float | None = None,  # noqa: ARG001
    answer: dict[str, Any] | None = None,  # noqa: ARG001
) -> dict[str, Any] | None:
    """Ask people, and go on with what they approved."""
    return arguments


QUESTION = AskTool(_asked, name=ASK, requires_approval=True, idempotent=True)


@dataclass(frozen=True, eq=False)
class SleepTool(StepTool):
    """No policy asks, nothing runs; the call is answered when the time is over."""


def _slept(seconds: float) -> None:
    """Wait, for weeks if need be."""


PAUSE = SleepTool(_slept, name=SLEEP, read_only=True)
