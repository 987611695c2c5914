"""Consent that people give in advance, and its uses."""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.store.tables.columns import Timestamp, created, metadata

approval_grant = Table(
    "approval_grant",
    metadata,
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE"), primary_key=True),
    Column("agent", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("checkpoint_id", Text, nullable=False),
    Column(
        "agents", ARRAY(Text), nullable=False
    ),  # and those above it: a pause of any of them ends the grant
    Column("until", Timestamp, nullable=False),
    Column("max_uses", Integer, nullable=False),
    Column("max_sum", Numeric),
    Column("uses", Integer, nullable=False, server_default="0"),  # counted by a trigger of grant_use
    Column("used_sum", Numeric, nullable=False, server_default="0"),
    created(),
    Column("ended_at", Timestamp),
    Column("ended_by", Text),
    Column("ended_because", Text),
    CheckConstraint("uses BETWEEN 0 AND max_uses", name="uses_within"),
    CheckConstraint("used_sum <= coalesce(max_sum, used_sum)", name="sum_within"),
    CheckConstraint("num_nonnulls(ended_at, ended_by, ended_because) IN (0, 3)", name="ended_whole"),
    Index(
        "ix_approval_grant_live",
        "agent",
        "tool",
        "checkpoint_id",
        "until",
        postgresql_where=text("ended_at IS NULL"),
    ),
)

grant_use = Table(
    "grant_use",
    metadata,
    Column("key", Text, primary_key=True),  # of a call, or of a program's question: it is counted once
    Column("grant_id", Uuid, ForeignKey("approval_grant.request_id", ondelete="CASCADE"), nullable=False),
    Column("n", Integer, nullable=False),
    Column("amount", Numeric, nullable=False),
    Column("digest", LargeBinary, nullable=False),  # of the action
    Column("content", LargeBinary, nullable=False),  # of everything that asking again must repeat
    Column("used_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    UniqueConstraint("grant_id", "n", name="uq_grant_use_n"),
    CheckConstraint("amount >= 0 AND n >= 1", name="adds_up"),
)
