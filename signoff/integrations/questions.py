"""What people are asked for besides yes or no, as a small dict that a framework's pause carries.

    {"question": "Which region?", "options": ["eu", "us"]}
    {"question": "What do you need?", "form": Order.model_json_schema()}

`other`, `answerers` and `answers_required` are those of `ApprovalClient.ask_for`.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from signoff.client import AsyncApprovalClient, GivenAnswer
from signoff.client.operations import WaitLimit
from signoff.errors import ApiError, CollaborationError, SignoffError
from signoff.integrations.tool_calls import UNUSABLE
from signoff.sessions import session_named

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


async def answer_to(
    client: AsyncApprovalClient,
    question: Question,
    *,
    key: str | None,
    session: str | None,
    context: Any,
    timeout: WaitLimit,
) -> GivenAnswer | str:
    """Return what people answered, or why there is no answer.

    With a key, it raises TimeoutError while nobody has answered, and the question stays open. Raises ApiError, Conflict
    and Unreachable.
    """
    try:
        given = await client.ask_for(
            **question.asked, context=context, timeout=timeout, key=key, session=session_named(session)
        )
    except CollaborationError as refusal:
        return no_answer(refusal)
    except TimeoutError as silence:
        if key is not None:
            raise
        return no_answer(silence)
    except ApiError as refused:
        if refused.status != UNUSABLE:
            raise
        return f"Nobody was asked: {refused}"
    return still_there(given)
