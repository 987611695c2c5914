"""Column types that several tables share."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Column, DateTime, Enum, MetaData

metadata = MetaData()

Timestamp = DateTime(timezone=True)


def enum_of(values: type[StrEnum], name: str) -> Enum:
    """An enum of values (``waiting``), not of Python's member names."""
    return Enum(values, name=name, values_callable=lambda kind: [member.value for member in kind])


def created() -> Column[object]:
    return Column("created_at", Timestamp, nullable=False)
