"""What an Agno run waits for a person to fill in, as a form, and the answers back in its requirement."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, cast, get_args, get_type_hints

from signoff.integrations.extras import missing_framework

try:
    from agno.models.response import ToolExecution
    from agno.run.requirement import RunRequirement
    from agno.tools.function import Function
except ImportError as error:
    raise missing_framework("Agno", "agno") from error
from pydantic import ConfigDict, Field, create_model

from signoff.client import GivenAnswer
from signoff.integrations.questions import Question


def question_of(waiting: RunRequirement, function: Function | None) -> Question:
    """Ask for the fields that the model left open, or for all; with the types of the tool, which Agno stores in part.

    Raises what pydantic raises for a type that has no JSON schema.
    """
    call = cast("ToolExecution", waiting.tool_execution)
    if waiting.needs_user_feedback:
        return Question(question="The agent has questions", form=_feedback_form(waiting))
    fields = waiting.user_input_schema or []
    known = {each.name: each.value for each in fields if each.value is not None}
    known = {} if len(known) == len(fields) else known
    hints = _hints(function)
    form: dict[str, Any] = {}
    for each in fields:
        if each.name not in known:
            hint = hints.get(each.name, each.field_type)
            form[each.name] = (
                hint,
                Field(None if type(None) in get_args(hint) else ..., description=each.description),
            )
    given = f" besides {json.dumps(known, ensure_ascii=False, default=str)}" if known else ""
    model = create_model("Input", __config__=ConfigDict(arbitrary_types_allowed=True), **form)
    return Question(question=f"What does {call.tool_name} need{given}?", form=model.model_json_schema())


def fill_in(waiting: RunRequirement, answer: GivenAnswer | str) -> None:
    """Without an answer the call does not run, and the model reads why."""
    call = cast("ToolExecution", waiting.tool_execution)
    if isinstance(answer, str):
        # Agno cannot refuse input. A confirmation that was refused ends the call in the same way.
        call.requires_confirmation, call.confirmed, call.confirmation_note = True, False, answer
        call.requires_user_input = False  # else Agno pauses again, and then runs the tool without its input
    elif waiting.needs_user_feedback:
        given = answer.value.items()
        waiting.provide_user_feedback(
            {asked: chosen if isinstance(chosen, list) else [chosen] for asked, chosen in given}
        )
    else:
        waiting.provide_user_input(answer.value)
    call.answered = True  # what may stay empty does not keep the run waiting


def _hints(function: Function | None) -> Mapping[str, Any]:
    inner = function.entrypoint if function else None
    try:
        return get_type_hints(inspect.unwrap(inner), include_extras=True) if inner else {}
    except NameError:  # names that only type checkers import
        return {}


def _feedback_form(waiting: RunRequirement) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for each in waiting.user_feedback_schema or []:
        labels = {"type": "string"} | ({"enum": [one.label for one in each.options]} if each.options else {})
        several = each.options and each.multi_select
        properties[each.question] = {"type": "array", "items": labels} if several else labels
    return {"type": "object", "properties": properties, "required": [*properties]}
