"""What all tables share: the metadata, and kinds of columns."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Column, DateTime, Enum, MetaData, func

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)

Timestamp = DateTime(timezone=True)


def enum_of(values: type[StrEnum], name: str) -> Enum:
    """A PostgreSQL enum that stores the values (``waiting``), not Python's member names (``WAITING``)."""
    return Enum(values, name=name, values_callable=lambda kind: [member.value for member in kind])


def created() -> Column[object]:
    return Column("created_at", Timestamp, nullable=False, server_default=func.clock_timestamp())
