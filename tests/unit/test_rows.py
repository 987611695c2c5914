"""How rows become values of dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from agent.domain.request import RequestStatus, Verdict
from agent.store.outbox import Destination
from agent.store.rows import row_as
from signoff.values import Person

COLUMNS: dict[str, Any] = {
    "status": "waiting",
    "outcome": "approved",
    "verdicts": ["approve"],
    "names": ["a", "b"],
    "requester_team_id": "T1",
    "requester_user_id": "U1",
    "team_id": "T1",
    "channel_id": "C1",
    "count": 3,
    "more": "is not read",
}


@dataclass(frozen=True, slots=True)
class Base:
    status: RequestStatus
    outcome: RequestStatus | None
    verdicts: frozenset[Verdict]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value(Base):
    requester: Person | None
    destination: Destination | None
    count: int
    other: str = "default"


def row(**changes: Any) -> Any:
    return SimpleNamespace(_asdict=lambda: COLUMNS | changes)


def test_columns_become_fields() -> None:
    """Enums, tuples, sets, people and destinations are made of their columns; what is given is taken as it is."""
    assert row_as(Value, row(), other="given") == Value(
        RequestStatus.WAITING,
        RequestStatus.APPROVED,
        frozenset({Verdict.APPROVE}),
        ("a", "b"),
        Person("T1", "U1"),
        Destination("T1", "C1"),
        3,
        "given",
    )


def test_nulls_are_none_or_empty() -> None:
    """NULL is no enum, person or destination, and an empty collection."""
    found = row_as(
        Value, row(outcome=None, names=None, requester_user_id=None, channel_id=None), other="given"
    )
    assert (found.outcome, found.names, found.requester, found.destination) == (None, (), None, None)


def test_a_missing_column_is_an_error() -> None:
    """A field that is neither given nor a column is not filled by its default."""
    with pytest.raises(KeyError, match="other"):
        row_as(Value, row())
