"""A body that may be a form or JSON, read into one model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from signoff.errors import MalformedArguments
from slackbot.web.http.bodies import read_form, read_json
from slackbot.web.http.problems import ProblemRaised, invalid

Body = TypeVar("Body", bound=BaseModel)

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
MAX_FIELDS = 50
MODELS: dict[str, type[BaseModel]] = {}
"""Body models read here, which FastAPI does not see: the OpenAPI document adds them."""


def form_or_json(model: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    """A dependency. Raises RequestValidationError, and ProblemRaised (415, 422)."""

    async def read(request: Request) -> Body:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        given = await (_form(request) if kind in FORMS else _json(request, kind))
        try:
            return model.model_validate(given)
        except ValidationError as error:
            found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
            raise RequestValidationError(found) from None

    return read


def openapi_body(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body for OpenAPI, as JSON only although forms are read, too, and remember its model."""
    MODELS[model.__name__] = model
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {
        "application/json": {"schema": schema}
    }  # of several, generated clients send one under another's name
    return {"requestBody": {"required": True, "content": content}}


async def _form(request: Request) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in (await read_form(request, MAX_FIELDS)).multi_items():
        if name in given:
            raise invalid((name[:100], "is given twice"))
        given[name] = value
    return given


async def _json(request: Request, kind: str) -> Any:
    if kind != "application/json":
        words = f"Send {', '.join(FORMS)} or application/json."
        raise ProblemRaised(415, "unsupported-media-type", "Unsupported media type", words)
    return await request.json()


def from_text(value: Any) -> Any:
    """Raises ValueError."""
    try:
        return read_json(value) if isinstance(value, str) else value
    except MalformedArguments as fault:
        raise ValueError(str(fault)) from None
