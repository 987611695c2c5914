"""Functions under pydantic's `validate_call`, which converts their arguments (`"yes"` to true)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def validates(function: Callable[..., Any]) -> bool:
    """Whether pydantic's `validate_call` wraps this function, and so converts its arguments."""
    return hasattr(function, "raw_function")


def form_of_call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of what the function gets. Raises MalformedArguments, with the path."""
    from signoff.json_form import form_as_read, reader_of  # noqa: PLC0415 - needs pydantic

    return form_as_read(reader_of(function, only=arguments.keys()), arguments)


def check_read(function: Callable[..., Any], judged: Mapping[str, Any]) -> None:
    """Raises MalformedArguments, with the path, if the function would get something else."""
    if validates(function):
        from signoff.json_form import judged_values, reader_of, written_by_type  # noqa: PLC0415 - needs pydantic

        judged_values(reader_of(function, only=judged.keys()), written_by_type, judged)
