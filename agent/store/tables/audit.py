"""The tables of the audit log."""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

from agent.store.tables.columns import Timestamp, metadata

audit_event = Table(
    "audit_event",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("at", Timestamp, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("detail", JSONB, nullable=False),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

audit_head = Table(
    "audit_head",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)
