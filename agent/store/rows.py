"""Rows as values of the store's dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

Kind = TypeVar("Kind")


class _Row(Protocol):
    def _asdict(self) -> Mapping[str, Any]: ...


def row_as(kind: type[Kind], row: _Row, **converted: object) -> Kind:
    """A value of a dataclass whose fields are ``converted``, or have the names of columns."""
    values = {**row._asdict(), **converted}
    return kind(**{name: values[name] for name in kind.__dataclass_fields__})  # type: ignore[attr-defined]
