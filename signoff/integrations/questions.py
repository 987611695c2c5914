"""What people are asked for besides yes or no, as a small dict that a framework's pause carries.

    {"question": "Which region?", "options": ["eu", "us"]}
    {"question": "What do you need?", "form": Order.model_json_schema()}

`other`, `answerers` and `answers_required` are those of `ApprovalClient.ask_for`.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from signoff.client import GivenAnswer
from signoff.errors import SignoffError

FREE_TEXT = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Answer"}},
    "required": ["answer"],
}
"""The form that asks for people's own words."""


class Question(BaseModel):
    """An unknown field may mean something that we would not honour."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: Annotated[str, Field(min_length=1)]
    options: list[str] | None = None
    form: dict[str, Any] | None = None
    other: bool = True
    answerers: list[str] | None = None
    answers_required: int = 1

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.options is None) == (self.form is None):
            raise ValueError("ask for `options` or for a `form`, one of the two")
        return self

    @property
    def asked(self) -> dict[str, Any]:
        """The keyword arguments of `ask_for`."""
        return {name: getattr(self, name) for name in Question.model_fields}


def still_there(given: GivenAnswer) -> GivenAnswer:
    """Raises SignoffError if the answer has been erased: an agent must not go on with nothing."""
    if given.value is None:
        raise SignoffError(f"the answer has been erased (request {given.id})")
    return given


def no_answer(why: object) -> str:
    """What a model reads in place of an answer."""
    return f"There is no answer: {why}. Do not assume one."
