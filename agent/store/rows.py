"""Rows to values and back, by the names of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Build a value from the columns named like its fields, and ``given`` fields.

    Texts become enums, arrays tuples or sets. A `Person` comes from `<field>_team_id` and `<field>_user_id`, a
    `Destination` from `team_id` and `channel_id`.
    """
    columns = row._asdict()
    values = dict(given)
    for name, read in _readers(kind):
        if name not in given:
            values[name] = columns[name] if read is None else read(columns)
    return kind(**values)


def columns(value: DataclassInstance, **given: object) -> dict[str, Any]:
    """The inverse of ``row_as``: fields, and those ``given``, as parameters."""
    found = dict(given)
    for name, kind, _ in _kinds(type(value)):
        if name not in given:
            found |= _written(name, kind, getattr(value, name))
    return found


def person_columns(name: str, person: Person | None) -> dict[str, str | None]:
    """Return a person as the values of two columns, `<name>_team_id` and `<name>_user_id`; None as NULLs."""
    team_id, user_id = (person.team_id, person.user_id) if person else (None, None)
    return {f"{name}_team_id": team_id, f"{name}_user_id": user_id}


def _written(name: str, kind: Any, value: Any) -> Mapping[str, Any]:
    if kind is Person:
        return person_columns(name, value)
    if kind is Destination:
        return {"team_id": value.team_id, "channel_id": value.channel_id}
    return {name: value}


@cache
def _readers(kind: type[DataclassInstance]) -> tuple[tuple[str, _Reader | None], ...]:
    """``None``: the column as it is."""
    return tuple((each[0], _reader(*each)) for each in _kinds(kind))


@cache
def _kinds(kind: type[DataclassInstance]) -> tuple[tuple[str, Any, bool], ...]:
    """Each field's name, type, and whether it may be ``None``."""
    types = get_type_hints(kind)
    return tuple((field.name, *_kind(types[field.name])) for field in fields(kind))


def _kind(declared: Any) -> tuple[Any, bool]:
    if type(None) not in get_args(declared):
        return declared, False
    return next(each for each in get_args(declared) if each is not type(None)), True


def _reader(name: str, kind: Any, optional: bool) -> _Reader | None:
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
    """Return the person of two columns, or None if either is empty."""
    return Person(team_id, user_id) if team_id and user_id else None


def people(stored: Iterable[Sequence[str]]) -> tuple[Person, ...]:
    """From ``[[team, user], …]``."""
    return tuple(Person(team, user) for team, user in stored)


def _destination(team_id: str | None, channel_id: str | None) -> Destination | None:
    return Destination(team_id, channel_id) if team_id and channel_id else None
