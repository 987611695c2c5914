"""Rows as dataclass values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

from agent.store.outbox import Destination
from signoff.values import Person

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = TypeVar("Kind", bound="DataclassInstance")
_Columns = Mapping[str, Any]
_Reader = Callable[[_Columns], object]


class _Row(Protocol):
    def _asdict(self) -> _Columns: ...


def row_as(kind: type[Kind], row: _Row, **given: object) -> Kind:
    """Build a value from the columns named like its fields, and from ``given`` fields.

    Texts become enums, arrays tuples or sets. A `Person` comes from `<field>_team_id` and `<field>_user_id`, a
    `Destination` from `team_id` and `channel_id`.
    """
    columns = row._asdict()
    values = dict(given)
    for name, read in _readers(kind):
        if name not in given:
            values[name] = columns[name] if read is None else read(columns)
    return kind(**values)


@cache
def _readers(kind: type[DataclassInstance]) -> tuple[tuple[str, _Reader | None], ...]:
    """How each field is read; ``None``: it is its column."""
    types = get_type_hints(kind)
    return tuple((field.name, _reader(field.name, types[field.name])) for field in fields(kind))


def _reader(name: str, declared: Any) -> _Reader | None:
    optional = type(None) in get_args(declared)
    kind = next(each for each in get_args(declared) if each is not type(None)) if optional else declared
    if kind is Person:
        return lambda columns: person(columns[f"{name}_team_id"], columns[f"{name}_user_id"])
    if kind is Destination:
        return lambda columns: _destination(columns["team_id"], columns["channel_id"])
    if (convert := _converter(kind)) is None:
        return None
    return lambda columns: None if optional and columns[name] is None else convert(columns[name])


def _converter(kind: Any) -> Callable[[Any], object] | None:
    if (collection := get_origin(kind)) in (tuple, frozenset):
        item = _converter(get_args(kind)[0])
        return lambda values: collection(map(item, values) if item and values else values or ())
    return kind if isinstance(kind, type) and issubclass(kind, StrEnum) else None


def person(team_id: str | None, user_id: str | None) -> Person | None:
    """Two columns as a person."""
    return Person(team_id, user_id) if team_id and user_id else None


def _destination(team_id: str | None, channel_id: str | None) -> Destination | None:
    return Destination(team_id, channel_id) if team_id and channel_id else None
