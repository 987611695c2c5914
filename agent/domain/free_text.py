"""Text that people, models and programs write freely. A view declares it, and it is masked before it is shown."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FreeText = Annotated[str, "free text"]


def free_texts(view: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a view that are declared as free text."""
    return {name: getattr(view, name) for name in _declared(type(view))}


@cache
def _declared(kind: type[DataclassInstance]) -> tuple[str, ...]:
    types = get_type_hints(kind, include_extras=True)
    return tuple(name for name in types if FreeText in (types[name], *get_args(types[name])))
